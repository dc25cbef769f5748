// Orbit camera, controlled by mouse, touch and wheel.
const FIELD = 0.5;

class OrbitCamera {
  constructor(canvas, head, changed) {
    this.head = head;
    this.changed = changed;
    this.home();
    const pointers = new Map();
    const start = (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, [event.clientX, event.clientY]);
      if (pointers.size === 1) this.wandered = 0;
    };
    const end = (event) => {
      pointers.delete(event.pointerId);
      if (event.type === "pointerup" && pointers.size === 0 && this.wandered < 5 && this.tapped)
        this.tapped(event);
    };
    canvas.addEventListener("pointerdown", start);
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("dblclick", () => { this.home(); changed(); });
    canvas.addEventListener("pointermove", (event) => {
      if (!pointers.has(event.pointerId)) return;
      const before = [...pointers.values()].map((place) => [...place]);
      const last = pointers.get(event.pointerId);
      const by = [event.clientX - last[0], event.clientY - last[1]];
      this.wandered += Math.abs(by[0]) + Math.abs(by[1]);
      last[0] = event.clientX;
      last[1] = event.clientY;
      if (pointers.size === 1) {
        if (event.buttons & 6 || event.shiftKey) this.pan(by, canvas);
        else this.turn(by, canvas);
      } else if (pointers.size === 2) this.pinch(before, [...pointers.values()], canvas);
      changed();
    });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(0.0012 * Math.max(-240, Math.min(240, event.deltaY))));
      changed();
    }, { passive: false });
  }

  home() {
    this.azimuth = this.head.azimuth;
    this.elevation = 0.17;
    this.nearer = 1;
    this.shift = [0, 0, 0];
    this.frame(this.head);
  }

  // Frame a motion, keeping direction and zoom.
  frame(head) {
    this.head = head;
    const [low, high] = head.bounds;
    this.centre = [(low[0] + high[0]) / 2, (low[1] + high[1]) / 2, (low[2] + high[2]) / 2];
    this.half = [Math.hypot(high[0] - low[0], high[2] - low[2]) / 2, (high[1] - low[1]) / 2];
  }

  turn(by, canvas) {
    const speed = 5 / Math.min(canvas.clientWidth, canvas.clientHeight);
    this.azimuth -= speed * by[0];
    this.elevation = Math.max(-1.45, Math.min(1.45, this.elevation + speed * by[1]));
  }

  pan(by, canvas) {
    const metre = (2 * this.distance * Math.tan(FIELD / 2)) / canvas.clientHeight;
    const { right, up } = this.axes();
    this.shift = add(this.shift, add(scaled(right, -metre * by[0]), scaled(up, metre * by[1])));
  }

  zoom(factor) {
    this.nearer = Math.max(0.08, Math.min(5, this.nearer * factor));
  }

  pinch(before, after, canvas) {
    const gap = (p) => Math.hypot(p[0][0] - p[1][0], p[0][1] - p[1][1]) || 1;
    const mid = (p) => [(p[0][0] + p[1][0]) / 2, (p[0][1] + p[1][1]) / 2];
    this.zoom(gap(before) / gap(after));
    const [a, b] = [mid(before), mid(after)];
    this.pan([b[0] - a[0], b[1] - a[1]], canvas);
  }

  axes() {
    const { azimuth: a, elevation: e } = this;
    const back = [Math.sin(a) * Math.cos(e), Math.sin(e), Math.cos(a) * Math.cos(e)];
    const right = unit(cross([0, 1, 0], back));
    return { right, up: cross(back, right), back };
  }

  // View for a viewport of this aspect, with the root at a point on the ground.
  view(standing, aspect) {
    const tall = this.half[1], wide = 0.8 * this.half[0];
    const fit = 1.08 * Math.max(tall, wide / aspect) / Math.tan(FIELD / 2);
    this.distance = (fit + 0.35 * this.half[0]) * this.nearer;
    const target = add(add(this.centre, standing), this.shift);
    const eye = add(target, scaled(this.axes().back, this.distance));
    const far = this.distance + 6 * this.head.size;
    const lens = perspective(FIELD, aspect, Math.max(0.02 * this.distance, far / 2000), far);
    return { eye, camera: times(lens, lookAt(eye, target, [0, 1, 0])) };
  }
}
