// Appearance of a body: draw vertices (one for each look of a vertex), materials and textures.
// A body without an appearance is one group in clay.
const WRAPS = { repeat: "REPEAT", clamp: "CLAMP_TO_EDGE", mirror: "MIRRORED_REPEAT" };
const PLAIN = { colour: [1, 1, 1, 1], picture: -1, alpha: "opaque", cutoff: 0.5 };

async function loadedPictures(addresses) {
  return Promise.all(addresses.map(async (address) => {
    try {
      const image = new Image();
      image.src = address;
      await image.decode();
      return image;
    } catch {
      return null; // the material's colour is used
    }
  }));
}

class Colours {
  constructor(motion, pictures) {
    const { appearance } = motion.head, { looks, n, triangles } = motion;
    Object.assign(this, { pictures, own: Boolean(appearance), n });
    this.sources = null; // vertex of each draw vertex, null if they are the same
    this.first = null;
    this.materials = appearance ? appearance.materials : [PLAIN];
    if (!appearance) {
      this.indices = triangles;
      this.groups = [{ material: PLAIN, start: 0, count: triangles.length }];
      return;
    }
    this.first = new Uint32Array(n);
    let count = 0;
    for (let i = 0; i < looks.ways.length; i++) {
      this.first[i] = count;
      count += looks.ways[i];
    }
    this.n = count;
    this.sources = new Uint32Array(count);
    for (let i = 0; i < looks.ways.length; i++)
      this.sources.fill(i, this.first[i], this.first[i] + looks.ways[i]);
    this.uv = this.coordinates(appearance.uv, looks.uv);
    this.tints = appearance.tints ? this.painted(looks.tints) : null;
    this.group(triangles, looks);
  }

  // Values of draw vertices from differences, stored one coordinate after the other.
  unpacked(steps, width, value) {
    const out = new Float32Array(width * this.n);
    for (let c = 0; c < width; c++)
      for (let i = 0, last = 0; i < this.n; i++)
        out[width * i + c] = value(last += steps[c * this.n + i], c);
    return out;
  }

  coordinates(range, steps) {
    return range && this.unpacked(steps, 2, (whole, c) => range[c] + (range[2 + c] * whole) / 65535);
  }

  painted(steps) {
    return this.unpacked(steps, 4, (whole) => (whole / 255) ** 2);
  }

  // Sort triangles by material, transparent ones last.
  group(triangles, looks) {
    const count = triangles.length / 3, of = new Int32Array(count), sizes = [];
    for (let t = 0, last = 0; t < count; t++) {
      of[t] = last += looks.materials[t];
      sizes[last] = (sizes[last] || 0) + 3;
    }
    const order = this.materials.map((_, k) => k).filter((k) => sizes[k]);
    const through = (k) => Number(this.materials[k].alpha === "blend");
    order.sort((a, b) => through(a) - through(b) || a - b);
    const next = {};
    let start = 0;
    this.groups = order.map((k) => {
      const group = { material: this.materials[k], start, count: sizes[k] };
      next[k] = start;
      start += sizes[k];
      return group;
    });
    this.indices = new Uint32Array(triangles.length);
    for (let t = 0; t < count; t++)
      for (let c = 0; c < 3; c++)
        this.indices[next[of[t]]++] = this.first[triangles[3 * t + c]] + looks.corners[3 * t + c];
  }

  // Copy values of vertices, `width` each, to draw vertices.
  spread(values, width, out) {
    if (!this.sources) return values;
    const { sources } = this;
    if (width === 1) for (let i = 0; i < sources.length; i++) out[i] = values[sources[i]];
    else
      for (let i = 0; i < sources.length; i++) {
        const to = 3 * i, from = 3 * sources[i];
        out[to] = values[from];
        out[to + 1] = values[from + 1];
        out[to + 2] = values[from + 2];
      }
    return out;
  }

  room(width) {
    return this.sources ? new Float32Array(width * this.n) : null;
  }

  // Upload a texture for each material, a white one if it has none.
  upload(gl) {
    const white = this.texture(gl, null, PLAIN);
    for (const group of this.groups) {
      const picture = this.pictures[group.material.picture];
      group.textured = Boolean(picture);
      group.texture = picture ? this.texture(gl, picture, group.material) : white;
    }
  }

  texture(gl, picture, material) {
    const made = gl.createTexture();
    gl.activeTexture(gl.TEXTURE2);
    gl.bindTexture(gl.TEXTURE_2D, made);
    if (!picture) {
      const one = new Uint8Array([255, 255, 255, 255]);
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 1, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, one);
    } else {
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.SRGB8_ALPHA8, gl.RGBA, gl.UNSIGNED_BYTE, picture);
      gl.generateMipmap(gl.TEXTURE_2D);
    }
    const set = (name, value) => gl.texParameteri(gl.TEXTURE_2D, gl[`TEXTURE_${name}`], gl[value]);
    set("MIN_FILTER", picture ? "LINEAR_MIPMAP_LINEAR" : "NEAREST");
    set("MAG_FILTER", picture && material.smooth ? "LINEAR" : "NEAREST");
    ["WRAP_S", "WRAP_T"].forEach((name, k) => set(name, WRAPS[(material.wrap || [])[k]] || "REPEAT"));
    return made;
  }
}
