// Chart of one vertex over time: rig and flesh along the main direction of the flesh's offset.
// If the rig moves this many times as far as the flesh, the chart shows their difference.
const RELATIVE = 8;

class Chart {
  constructor(canvas, motion, seek) {
    Object.assign(this, { canvas, motion });
    const to = (event) => {
      const box = canvas.getBoundingClientRect();
      const part = (event.clientX - box.left - this.left) / Math.max(this.width, 1);
      seek(Math.min(Math.max(part, 0), 1) * motion.duration);
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      to(event);
    });
    canvas.addEventListener("pointermove", (event) => { if (event.buttons) to(event); });
    this.left = 44;
    this.choose(motion.head.vertex);
  }

  choose(vertex) {
    this.vertex = vertex;
    const [rig, soft] = this.motion.pathOf(vertex);
    const frames = this.motion.head.frames;
    let axis = [0.36, 0.48, 0.8];
    const offsets = [];
    for (let f = 0; f < frames; f++) {
      const back = this.rotation(f, -1);
      offsets.push(back(sub(soft.subarray(3 * f, 3 * f + 3), rig.subarray(3 * f, 3 * f + 3))));
    }
    for (let round = 0; round < 40; round++) { // the offsets' first principal direction
      let next = [0, 0, 0];
      for (const offset of offsets) next = add(next, scaled(offset, dot(offset, axis)));
      if (Math.hypot(...next) < 1e-20) break;
      axis = unit(next);
    }
    const biggest = axis.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a));
    if (biggest < 0) axis = scaled(axis, -1);
    const mean = [0, 0, 0];
    for (let f = 0; f < frames; f++)
      for (let c = 0; c < 3; c++) mean[c] += rig[3 * f + c] / frames;
    this.lines = [rig, soft].map((points) => Array.from({ length: frames }, (_, f) =>
      100 * dot(sub(points.subarray(3 * f, 3 * f + 3), mean), this.rotation(f, 1)(axis))));
    const span = (line) => line.reduce((a, b) => Math.max(a, b), -Infinity)
      - line.reduce((a, b) => Math.min(a, b), Infinity);
    const swing = this.lines[1].map((v, f) => v - this.lines[0][f]);
    this.beside = span(this.lines[0]) > RELATIVE * span(swing);
    if (this.beside) this.lines = [swing.map(() => 0), swing];
  }

  // Function that rotates vectors with the root of a frame, or back.
  rotation(frame, sense) {
    const m = rigid(this.motion.placeOf(frame));
    if (sense > 0) return (v) => sub(transformed(m, v), [m[12], m[13], m[14]]);
    return (v) => [0, 1, 2].map((c) => m[4 * c] * v[0] + m[4 * c + 1] * v[1] + m[4 * c + 2] * v[2]);
  }

  draw(time) {
    const { canvas } = this, ratio = window.devicePixelRatio || 1;
    const wide = canvas.clientWidth, tall = canvas.clientHeight;
    if (!wide || !tall) return;
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(tall * ratio);
    const pen = canvas.getContext("2d");
    const style = getComputedStyle(canvas);
    const colour = (name) => style.getPropertyValue(name).trim();
    pen.scale(ratio, ratio);
    const top = 10, bottom = 22, { left } = this;
    this.width = wide - left - 10;
    const high = tall - top - bottom;
    const all = this.lines.flat();
    let low = all.reduce((a, b) => Math.min(a, b)), most = all.reduce((a, b) => Math.max(a, b));
    const spare = Math.max(0.06 * (most - low), 1e-4);
    low -= spare;
    most += spare;
    const count = this.lines[0].length, last = Math.max(count - 1, 1);
    const x = (f) => left + (this.width * f) / last;
    const y = (v) => top + (high * (most - v)) / (most - low);
    this.axes(pen, { low, most, y, left, top, high, wide, tall, colour });
    const path = (line) => line.forEach((v, f) => pen[f ? "lineTo" : "moveTo"](x(f), y(v)));
    pen.beginPath();
    path(this.lines[0]);
    for (let f = count - 1; f >= 0; f--) pen.lineTo(x(f), y(this.lines[1][f]));
    pen.globalAlpha = 0.16;
    pen.fillStyle = colour("--flesh");
    pen.fill();
    pen.globalAlpha = 1;
    pen.lineJoin = "round";
    [["--rig", 1.5], ["--flesh", 2.2]].forEach(([name, width], k) => {
      pen.beginPath();
      path(this.lines[k]);
      pen.strokeStyle = colour(name);
      pen.lineWidth = width;
      pen.stroke();
    });
    const now = x(Math.min(time * this.motion.head.rate, last));
    pen.strokeStyle = colour("--ink");
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(now, top);
    pen.lineTo(now, top + high);
    pen.stroke();
  }

  axes(pen, { low, most, y, left, top, high, wide, tall, colour }) {
    const rough = (most - low) / 4, ten = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((s) => s * ten).find((s) => s >= rough);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = colour("--faint");
    pen.strokeStyle = colour("--line");
    pen.lineWidth = 1;
    pen.textAlign = "right";
    for (let v = Math.ceil(low / step) * step; v <= most; v += step) {
      pen.beginPath();
      pen.moveTo(left, y(v));
      pen.lineTo(wide - 10, y(v));
      pen.stroke();
      pen.fillText(`${+v.toFixed(digits)}`, left - 6, y(v) + 4);
    }
    pen.textAlign = "center";
    const { duration, head } = this.motion;
    const every = duration > 40 ? 10 : duration > 12 ? 5 : duration > 2.5 ? 1 : 0.25;
    for (let s = Math.ceil(head.start / every) * every; s <= head.start + duration; s += every) {
      const at = left + (this.width * (s - head.start)) / Math.max(duration, 1e-9);
      pen.fillText(`${+s.toFixed(2)} s`, at, tall - 6);
    }
    pen.textAlign = "left";
    pen.fillText("cm", 4, top + 8);
  }
}
