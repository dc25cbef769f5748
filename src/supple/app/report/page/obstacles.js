// Obstacles and objects of a motion, drawn transparently behind and before the body.
const SOLID_LOOKS = {
  plane: { u_colour: [0.55, 0.60, 0.68], u_alpha: 0.30 },
  obstacle: { u_colour: [0.60, 0.63, 0.68], u_alpha: 0.50 },
  object: { u_colour: [0.24, 0.46, 0.70], u_alpha: 0.72 },
};

class Obstacles {
  constructor(renderer, motion) {
    const { gl } = renderer;
    Object.assign(this, { gl, renderer, motion });
    this.listed = motion.whole.obstacles.map((head) => this.loaded(head));
    if (this.listed.length) this.program = program(gl, SOLID_VERTEX, SOLID_FRAGMENT);
  }

  loaded(head) {
    const { gl, motion, renderer } = this;
    const [first, count] = head.points, [start, corners] = head.corners;
    const points = motion.solids.slice(3 * first, 3 * (first + count));
    const triangles = Uint32Array.from(motion.solidCorners.subarray(start, start + corners));
    const normals = new Float32Array(points.length);
    normalsOf(points, triangles, normals);
    const data = [points, normals].map((each) => renderer.buffer(gl.ARRAY_BUFFER, each));
    const indices = renderer.buffer(gl.ELEMENT_ARRAY_BUFFER, triangles);
    const array = gl.createVertexArray();
    gl.bindVertexArray(array);
    data.forEach((each, place) => {
      gl.bindBuffer(gl.ARRAY_BUFFER, each);
      gl.enableVertexAttribArray(place);
      gl.vertexAttribPointer(place, 3, gl.FLOAT, false, 0, 0);
    });
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, indices);
    gl.bindVertexArray(null);
    return { head, array, corners };
  }

  // Whether this motion has a plane, which has lines of its own.
  get hasPlane() {
    const { clip } = this.motion;
    return this.listed.some(({ head }) => head.kind === "plane" && head.tracks[clip]);
  }

  // Draw the front faces of the obstacles at a time, far ones first.
  draw(view, shared, time) {
    const { gl, renderer, motion } = this;
    const placed = [];
    this.listed.forEach((each, number) => {
      const place = motion.obstacleAt(number, time);
      if (place) placed.push({ ...each, place, far: Math.hypot(...sub(place.slice(4), view.eye)) });
    });
    if (!placed.length) return;
    const rank = ({ head, far }) => (head.kind === "plane" ? 1e9 : 0) + far;
    placed.sort((a, b) => rank(b) - rank(a));
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.depthMask(false);
    for (const { head, array, corners, place } of placed) {
      const plane = head.kind === "plane";
      renderer.use(this.program, { ...shared, ...SOLID_LOOKS[head.kind], u_model: rigid(place),
        u_eye: view.eye, u_key: KEY, u_smooth: head.smooth ? 1 : 0, u_plane: plane ? 1 : 0,
        u_shadow: { texture: 0 } });
      gl.bindVertexArray(array);
      if (!plane) {
        gl.enable(gl.CULL_FACE);
        gl.cullFace(gl.BACK);
      }
      gl.drawElements(gl.TRIANGLES, corners, gl.UNSIGNED_INT, 0);
      gl.disable(gl.CULL_FACE);
    }
    gl.bindVertexArray(null);
    gl.depthMask(true);
    gl.disable(gl.BLEND);
  }
}
