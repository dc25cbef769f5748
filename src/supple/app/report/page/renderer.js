// WebGL 2 renderer of bodies on a ground, with one light and shadows.
const SHADOW_PIXELS = 1024, NEAR_CELLS = 64;
const KEY = unit([-0.45, 0.8, 0.55]);
const INPUTS = ["a_place", "a_normal", "a_cavity", "a_amount", "a_uv", "a_tint"];
// Opacity from which a surface counts as opaque.
const SOLID = 0.98;

function program(gl, vertex, fragment) {
  const made = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS) && !gl.isContextLost())
      throw new Error(gl.getShaderInfoLog(shader));
    gl.attachShader(made, shader);
  }
  INPUTS.forEach((name, place) => gl.bindAttribLocation(made, place, name));
  gl.bindAttribLocation(made, 0, "a_corner");
  gl.linkProgram(made);
  if (!gl.getProgramParameter(made, gl.LINK_STATUS) && !gl.isContextLost())
    throw new Error(gl.getProgramInfoLog(made));
  const places = {};
  const count = gl.getProgramParameter(made, gl.ACTIVE_UNIFORMS);
  for (let i = 0; i < count; i++) {
    const { name } = gl.getActiveUniform(made, i);
    places[name] = gl.getUniformLocation(made, name);
  }
  return { made, places };
}

// Edges of triangles, each once.
function edgesOf(triangles) {
  const edges = [];
  for (let t = 0; t < triangles.length; t += 3)
    for (let c = 0; c < 3; c++) {
      const a = triangles[t + c], b = triangles[t + ((c + 1) % 3)];
      if (a < b) edges.push(a, b);
    }
  return new Uint32Array(edges);
}

class Renderer {
  constructor(canvas, motion, colours) {
    const gl = canvas.getContext("webgl2", { alpha: true, antialias: true, depth: true });
    if (!gl) throw new Error("no WebGL 2");
    Object.assign(this, { gl, canvas, motion, colours });
    this.bodyProgram = program(gl, BODY_VERTEX, BODY_FRAGMENT);
    this.groundProgram = program(gl, GROUND_VERTEX, GROUND_FRAGMENT);
    this.plainProgram = program(gl, PLAIN_VERTEX, PLAIN_FRAGMENT);
    this.indices = this.buffer(gl.ELEMENT_ARRAY_BUFFER, colours.indices);
    const edges = edgesOf(motion.triangles);
    if (colours.first) for (let i = 0; i < edges.length; i++) edges[i] = colours.first[edges[i]];
    this.edgeIndices = this.buffer(gl.ELEMENT_ARRAY_BUFFER, edges);
    this.edgeCount = edges.length;
    this.room = { 1: colours.room(1), 3: colours.room(3) };
    this.cavity = this.buffer(gl.ARRAY_BUFFER, this.spread(motion.cavity, 1));
    this.amount = this.buffer(gl.ARRAY_BUFFER, this.spread(motion.amount, 1));
    this.uv = colours.uv && this.buffer(gl.ARRAY_BUFFER, colours.uv);
    this.tints = colours.tints && this.buffer(gl.ARRAY_BUFFER, colours.tints);
    colours.upload(gl);
    this.bodies = { rig: this.body(motion.rig), soft: this.body(motion.soft) };
    this.corners = this.buffer(gl.ARRAY_BUFFER, new Float32Array([-1, -1, 1, -1, -1, 1, 1, 1]));
    this.obstacles = new Obstacles(this, motion);
    this.makeShadow();
    this.near = new Uint8Array(NEAR_CELLS * NEAR_CELLS);
    this.nearTexture = gl.createTexture();
    gl.enable(gl.DEPTH_TEST);
  }

  buffer(kind, data) {
    const made = this.gl.createBuffer();
    this.gl.bindVertexArray(null);
    this.gl.bindBuffer(kind, made);
    this.gl.bufferData(kind, data, this.gl.DYNAMIC_DRAW);
    return made;
  }

  body(points) {
    const gl = this.gl;
    const normals = new Float32Array(points.length);
    const body = { points, normals };
    body.place = this.buffer(gl.ARRAY_BUFFER, this.spread(points, 3));
    body.normal = this.buffer(gl.ARRAY_BUFFER, this.spread(normals, 3));
    body.array = gl.createVertexArray();
    gl.bindVertexArray(body.array);
    const inputs = [[body.place, 3], [body.normal, 3], [this.cavity, 1], [this.amount, 1],
      [this.uv, 2], [this.tints, 4]];
    inputs.forEach(([data, size], place) => {
      if (!data) return;
      gl.bindBuffer(gl.ARRAY_BUFFER, data);
      gl.enableVertexAttribArray(place);
      gl.vertexAttribPointer(place, size, gl.FLOAT, false, 0, 0);
    });
    gl.bindVertexArray(null);
    return body;
  }

  spread(values, width) {
    return this.colours.spread(values, width, this.room[width]);
  }

  makeShadow() {
    const gl = this.gl;
    this.shadow = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, this.shadow);
    gl.texStorage2D(gl.TEXTURE_2D, 1, gl.DEPTH_COMPONENT24, SHADOW_PIXELS, SHADOW_PIXELS);
    const set = (name, value) => gl.texParameteri(gl.TEXTURE_2D, name, value);
    set(gl.TEXTURE_COMPARE_MODE, gl.COMPARE_REF_TO_TEXTURE);
    set(gl.TEXTURE_MIN_FILTER, gl.LINEAR);
    set(gl.TEXTURE_MAG_FILTER, gl.LINEAR);
    set(gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE);
    set(gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE);
    this.shadowFrame = gl.createFramebuffer();
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.shadowFrame);
    gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.DEPTH_ATTACHMENT, gl.TEXTURE_2D, this.shadow, 0);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
  }

  // Upload new positions and normals.
  refresh(names) {
    const gl = this.gl;
    const send = (target, data) => {
      gl.bindBuffer(gl.ARRAY_BUFFER, target);
      gl.bufferSubData(gl.ARRAY_BUFFER, 0, data);
    };
    for (const name of names) {
      const body = this.bodies[name];
      normalsOf(body.points, this.motion.triangles, body.normals);
      send(body.place, this.spread(body.points, 3));
      send(body.normal, this.spread(body.normals, 3));
    }
    send(this.amount, this.spread(this.motion.amount, 1));
  }

  // Ambient occlusion of the ground below a body.
  nearGround(body, model, middle, size) {
    const cells = new Float32Array(NEAR_CELLS * NEAR_CELLS);
    const { points } = body, every = Math.max(1, Math.floor(points.length / 3 / 6000));
    for (let i = 0; i < points.length; i += 3 * every) {
      const p = transformed(model, points, i);
      const height = Math.max(p[1] - middle[1], 0) / size;
      const x = Math.floor((0.5 + (p[0] - middle[0]) / size / 2.4) * NEAR_CELLS);
      const z = Math.floor((0.5 + (p[2] - middle[2]) / size / 2.4) * NEAR_CELLS);
      if (x < 0 || z < 0 || x >= NEAR_CELLS || z >= NEAR_CELLS) continue;
      const at = z * NEAR_CELLS + x;
      cells[at] = Math.max(cells[at], Math.exp(-7 * height));
    }
    let from = cells, to = new Float32Array(cells.length);
    for (let pass = 0; pass < 6; pass++) {
      const step = pass % 2 ? NEAR_CELLS : 1;
      for (let i = 0; i < from.length; i++) {
        const a = from[i - step] || 0, b = from[i + step] || 0;
        to[i] = 0.25 * a + 0.5 * from[i] + 0.25 * b;
      }
      [from, to] = [to, from];
    }
    for (let i = 0; i < from.length; i++) this.near[i] = 255 * Math.min(from[i], 1);
    const gl = this.gl;
    gl.activeTexture(gl.TEXTURE1);
    gl.bindTexture(gl.TEXTURE_2D, this.nearTexture);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.R8, NEAR_CELLS, NEAR_CELLS, 0, gl.RED, gl.UNSIGNED_BYTE,
      this.near);
    for (const name of ["MIN", "MAG"])
      gl.texParameteri(gl.TEXTURE_2D, gl[`TEXTURE_${name}_FILTER`], gl.LINEAR);
    for (const name of ["S", "T"])
      gl.texParameteri(gl.TEXTURE_2D, gl[`TEXTURE_WRAP_${name}`], gl.CLAMP_TO_EDGE);
  }

  clear() {
    const gl = this.gl;
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.disable(gl.SCISSOR_TEST);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
  }

  // Draw a body in a viewport: view = {box, camera, eye, middle, model, look}.
  draw(name, view) {
    const { gl, motion } = this, body = this.bodies[name], { size } = motion.head;
    const centre = add(view.middle, [0, 0.4 * size, 0]);
    const sun = lookAt(add(centre, scaled(KEY, 2 * size)), centre, [0, 0, -1]);
    const light = times(orthographic(1.0 * size, 0.2 * size, 4 * size), sun);
    this.castShadow(body, light, view.model);
    this.nearGround(body, view.model, view.middle, size);
    gl.viewport(...view.box);
    gl.activeTexture(gl.TEXTURE0);
    gl.bindTexture(gl.TEXTURE_2D, this.shadow);
    const shared = { u_camera: view.camera, u_light: light, u_size: size };
    this.drawGround(view, shared);
    this.use(this.bodyProgram, {
      ...shared, u_model: view.model, u_eye: view.eye, u_key: KEY, u_colour: view.look.colour,
      u_ground: view.middle[1], u_full: Math.max(motion.head.farthest, 1e-9),
      u_heat: view.look.heat ? 1 : 0, u_own: view.look.own ? 1 : 0, u_shadow: { texture: 0 },
      u_picture: { texture: 2 },
    });
    gl.bindVertexArray(body.array);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.indices);
    gl.vertexAttrib4f(INPUTS.indexOf("a_tint"), 1, 1, 1, 1); // without vertex colours
    for (const group of this.colours.groups) this.drawGroup(group);
    if (view.look.wire) {
      this.use(this.plainProgram, { u_camera: view.camera, u_model: view.model,
        u_tint: [0, 0, 0, 0.28] });
      gl.enable(gl.BLEND);
      gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.edgeIndices);
      gl.drawElements(gl.LINES, this.edgeCount, gl.UNSIGNED_INT, 0);
      gl.disable(gl.BLEND);
    }
    gl.bindVertexArray(null);
    if (view.look.obstacles) this.obstacles.draw(view, shared, view.time);
  }

  // Draw the triangles of a material: opaque parts first, then transparent ones.
  drawGroup({ material, start, count, texture }) {
    const gl = this.gl, { colour, alpha, cutoff } = material;
    gl.activeTexture(gl.TEXTURE2);
    gl.bindTexture(gl.TEXTURE_2D, texture);
    const draw = (u_least, u_most, u_through) => {
      this.use(this.bodyProgram, { u_factor: colour, u_least, u_most, u_through });
      gl.drawElements(gl.TRIANGLES, count, gl.UNSIGNED_INT, 4 * start);
    };
    draw(alpha === "opaque" ? -1 : alpha === "mask" ? cutoff : SOLID, 1e9, 0);
    if (alpha !== "blend") return;
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.depthMask(false);
    draw(0.004, SOLID, 1);
    gl.depthMask(true);
    gl.disable(gl.BLEND);
  }

  castShadow(body, light, model) {
    const { gl, motion } = this;
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.shadowFrame);
    gl.viewport(0, 0, SHADOW_PIXELS, SHADOW_PIXELS);
    gl.clear(gl.DEPTH_BUFFER_BIT);
    gl.enable(gl.POLYGON_OFFSET_FILL);
    gl.polygonOffset(2, 4);
    this.use(this.plainProgram, { u_camera: light, u_model: model, u_tint: [0, 0, 0, 0] });
    gl.bindVertexArray(body.array);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.indices);
    gl.drawElements(gl.TRIANGLES, motion.triangles.length, gl.UNSIGNED_INT, 0);
    gl.disable(gl.POLYGON_OFFSET_FILL);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
  }

  drawGround(view, shared) {
    const gl = this.gl;
    if (view.eye[1] < view.middle[1]) return; // invisible from below
    this.use(this.groundProgram, { ...shared, u_middle: view.middle, u_shadow: { texture: 0 },
      u_near: { texture: 1 }, u_dark: view.look.dark ? 1 : 0,
      u_lines: view.look.obstacles && this.obstacles.hasPlane ? 0 : 1 });
    gl.bindVertexArray(null);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.corners);
    gl.enableVertexAttribArray(0);
    gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0);
    gl.disable(gl.DEPTH_TEST); // feet below the ground stay visible
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    gl.disable(gl.BLEND);
    gl.enable(gl.DEPTH_TEST);
  }

  use({ made, places }, values) {
    const gl = this.gl;
    gl.useProgram(made);
    for (const [name, value] of Object.entries(values)) {
      const place = places[name];
      if (place === undefined) continue;
      if (typeof value === "number") gl.uniform1f(place, value);
      else if (value.texture !== undefined) gl.uniform1i(place, value.texture);
      else if (value.length === 16) gl.uniformMatrix4fv(place, false, value);
      else if (value.length === 4) gl.uniform4fv(place, value);
      else gl.uniform3fv(place, value);
    }
  }
}
