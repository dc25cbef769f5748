// Baked motion: shapes times weights for the rig and for the flesh's offsets.
function fromBase64(text) {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Decode zigzag integers from planes of bytes, lowest first.
function unpacked(bytes, at, count, planes) {
  const out = new Int32Array(count);
  for (let p = planes - 1; p >= 0; p--) {
    const plane = bytes.subarray(at + p * count, at + (p + 1) * count);
    for (let i = 0; i < count; i++) out[i] = (out[i] << 8) | plane[i];
  }
  for (let i = 0; i < count; i++) out[i] = (out[i] >>> 1) ^ -(out[i] & 1);
  return out;
}

// Largest smaller neighbour of every vertex; numbers are stored as differences to it.
function neighboursBefore(triangles, n) {
  const before = new Int32Array(n).fill(-1);
  const see = (a, b) => { if (b < a && b > before[a]) before[a] = b; };
  for (let t = 0; t < triangles.length; t += 3) {
    const a = triangles[t], b = triangles[t + 1], c = triangles[t + 2];
    see(a, b); see(b, a); see(b, c); see(c, b); see(c, a); see(a, c);
  }
  for (let i = 0; i < n; i++) if (before[i] < 0) before[i] = i - 1;
  return before;
}

// Shapes in m, one array of x y z each.
function shapesFrom(numbers, before, count, n, step) {
  const shapes = [];
  const whole = new Int32Array(n);
  for (let k = 0; k < count; k++) {
    const shape = new Float32Array(3 * n);
    for (let c = 0; c < 3; c++) {
      const part = numbers.subarray((3 * k + c) * n, (3 * k + c + 1) * n);
      for (let i = 0; i < n; i++) {
        whole[i] = part[i] + (i ? whole[before[i]] : 0);
        shape[3 * i + c] = whole[i] * step;
      }
    }
    shapes.push(shape);
  }
  return shapes;
}

// Place between two places, each a quaternion and a translation.
function between(from, to, part) {
  const place = new Array(7);
  for (let i = 0; i < 7; i++) place[i] = (1 - part) * from[i] + part * to[i];
  const length = Math.hypot(place[0], place[1], place[2], place[3]);
  for (let i = 0; i < 4; i++) place[i] /= length;
  return place;
}

class BakedMotion {
  static async from(head, text) {
    const bytes = fromBase64(text);
    const [first, second] = head.bytes;
    const packed = await inflated(bytes.subarray(0, first));
    const plain = await inflated(bytes.subarray(first, first + second));
    return new BakedMotion(head, packed, plain);
  }

  constructor(head, packed, plain) {
    this.whole = head;
    this.choose(head.clip);
    const parts = {};
    let at = 0;
    for (const { name, count, planes } of head.packed) {
      parts[name] = unpacked(packed, at, count, planes);
      at += count * planes;
    }
    at = 0;
    for (const { name, count } of head.plain) {
      parts[name] = new Float32Array(plain.buffer, plain.byteOffset + at, count);
      at += 4 * count;
    }
    const n = (this.n = head.vertices);
    this.triangles = new Uint32Array(parts.triangles.length);
    for (let i = 0, last = 0; i < parts.triangles.length; i++)
      this.triangles[i] = last += parts.triangles[i];
    const before = neighboursBefore(this.triangles, n);
    this.rigShapes = shapesFrom(parts.rig, before, head.shapes[0], n, head.steps[0]);
    this.fleshShapes = shapesFrom(parts.flesh, before, head.shapes[1], n, head.steps[1]);
    this.cavity = Float32Array.from(parts.cavity, (percent) => percent / 100);
    this.looks = parts; // "ways", "corners", "uv", "tints" and "materials", where there are any
    this.weights = parts.weights;
    this.places = parts.places;
    this.solids = parts.solids;
    this.solidCorners = parts.solidCorners;
    this.solidPlaces = parts.solidPlaces;
    this.count = head.shapes[0] + head.shapes[1];
    this.rig = new Float32Array(3 * n);
    this.soft = new Float32Array(3 * n);
    this.amount = new Float32Array(n);
    this.now = new Float32Array(this.count);
  }

  // Choose a motion; its values override the shared ones.
  choose(clip) {
    this.clip = clip;
    this.head = { ...this.whole, ...this.whole.clips[clip] };
    this.reached = undefined;
  }

  // Quaternion and translation of the root at a frame.
  placeOf(frame) {
    const at = 7 * (this.head.first + frame);
    return this.places.subarray(at, at + 7);
  }

  get duration() {
    return (this.head.frames - 1) / this.head.rate;
  }

  // Frames before and after a time, and the fraction between them.
  around(time) {
    const last = this.head.frames - 1;
    const place = Math.min(Math.max(time * this.head.rate, 0), last);
    const first = Math.min(Math.floor(place), Math.max(last - 1, 0));
    return [first, Math.min(first + 1, last), place - first];
  }

  rootAt(time) {
    const [a, b, part] = this.around(time);
    return between(this.placeOf(a), this.placeOf(b), part);
  }

  // Quaternion and translation of an obstacle; null if this motion does not have it.
  obstacleAt(number, time) {
    const track = this.head.obstacles[number].tracks[this.clip];
    if (!track) return null;
    const [a, b, part] = this.around(time);
    const place = (frame) => {
      const at = 7 * (track[0] + Math.min(frame, track[1] - 1));
      return this.solidPlaces.subarray(at, at + 7);
    };
    return between(place(a), place(b), part);
  }

  // Fill rig, soft and amount (distance of flesh from rig in m), in root space.
  moveTo(time) {
    if (time === this.reached) return;
    this.reached = time;
    const [a, b, part] = this.around(time);
    const from = (this.head.first + a) * this.count, to = (this.head.first + b) * this.count;
    for (let k = 0; k < this.count; k++)
      this.now[k] = (1 - part) * this.weights[from + k] + part * this.weights[to + k];
    const { rig, soft, amount, n } = this;
    rig.fill(0);
    soft.fill(0);
    this.summed(this.rigShapes, 0, rig);
    this.summed(this.fleshShapes, this.rigShapes.length, soft);
    for (let i = 0; i < n; i++)
      amount[i] = Math.hypot(soft[3 * i], soft[3 * i + 1], soft[3 * i + 2]);
    for (let i = 0; i < 3 * n; i++) soft[i] += rig[i];
  }

  // Add four shapes at a time, to save memory traffic.
  summed(shapes, first, out) {
    const none = shapes.length % 4 ? new Float32Array(out.length) : null;
    const shape = (k) => shapes[k] || none, weight = (k) => (shapes[k] ? this.now[first + k] : 0);
    for (let k = 0; k < shapes.length; k += 4) {
      const a = shape(k), b = shape(k + 1), c = shape(k + 2), d = shape(k + 3);
      const u = weight(k), v = weight(k + 1), w = weight(k + 2), x = weight(k + 3);
      for (let i = 0; i < out.length; i++) out[i] += u * a[i] + v * b[i] + w * c[i] + x * d[i];
    }
  }

  // Path of one vertex in the world: [rig, soft], x y z per frame.
  pathOf(vertex) {
    const both = [0, 1].map(() => new Float32Array(3 * this.head.frames));
    for (let f = 0; f < this.head.frames; f++) {
      const place = [0, 0, 0];
      const root = rigid(this.placeOf(f));
      let k = (this.head.first + f) * this.count;
      [this.rigShapes, this.fleshShapes].forEach((shapes, group) => {
        for (const shape of shapes) {
          const weight = this.weights[k++];
          for (let c = 0; c < 3; c++) place[c] += weight * shape[3 * vertex + c];
        }
        both[group].set(transformed(root, place).slice(0, 3), 3 * f);
      });
    }
    return both;
  }
}

function normalsOf(points, triangles, out) {
  out.fill(0);
  for (let t = 0; t < triangles.length; t += 3) {
    const a = 3 * triangles[t], b = 3 * triangles[t + 1], c = 3 * triangles[t + 2];
    const ux = points[b] - points[a], uy = points[b + 1] - points[a + 1];
    const uz = points[b + 2] - points[a + 2], vx = points[c] - points[a];
    const vy = points[c + 1] - points[a + 1], vz = points[c + 2] - points[a + 2];
    const x = uy * vz - uz * vy, y = uz * vx - ux * vz, z = ux * vy - uy * vx;
    out[a] += x; out[a + 1] += y; out[a + 2] += z;
    out[b] += x; out[b + 1] += y; out[b + 2] += z;
    out[c] += x; out[c + 1] += y; out[c + 2] += z;
  }
}
