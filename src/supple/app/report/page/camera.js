// A camera that goes around what it looks at, led by mouse, fingers or wheel.
const FIELD = 0.5;

class OrbitCamera {
  constructor(canvas, head, changed) {
    this.head = head;
    this.changed = changed;
    this.home();
    const held = new Map();
    const start = (event) => {
      canvas.setPointerCapture(event.pointerId);
      held.set(event.pointerId, [event.clientX, event.clientY]);
      if (held.size === 1) this.wandered = 0;
    };
    const end = (event) => {
      held.delete(event.pointerId);
      if (event.type === "pointerup" && held.size === 0 && this.wandered < 5 && this.tapped)
        this.tapped(event);
    };
    canvas.addEventListener("pointerdown", start);
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("dblclick", () => { this.home(); changed(); });
    canvas.addEventListener("pointermove", (event) => {
      if (!held.has(event.pointerId)) return;
      const before = [...held.values()].map((place) => [...place]);
      const own = held.get(event.pointerId);
      const by = [event.clientX - own[0], event.clientY - own[1]];
      this.wandered += Math.abs(by[0]) + Math.abs(by[1]);
      own[0] = event.clientX;
      own[1] = event.clientY;
      if (held.size === 1) {
        if (event.buttons & 6 || event.shiftKey) this.pan(by, canvas);
        else this.turn(by, canvas);
      } else if (held.size === 2) this.pinch(before, [...held.values()], canvas);
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

  // Look at the whole of a motion, from where and as near as before.
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

  // For a part of the canvas of this aspect, looking at what stands at this place.
  view(stands, aspect) {
    const tall = this.half[1], wide = 0.8 * this.half[0];
    const fit = 1.08 * Math.max(tall, wide / aspect) / Math.tan(FIELD / 2);
    this.distance = (fit + 0.35 * this.half[0]) * this.nearer;
    const target = add(add(this.centre, stands), this.shift);
    const eye = add(target, scaled(this.axes().back, this.distance));
    const far = this.distance + 6 * this.head.size;
    const lens = perspective(FIELD, aspect, Math.max(0.02 * this.distance, far / 2000), far);
    return { eye, camera: times(lens, lookAt(eye, target, [0, 1, 0])) };
  }
}
