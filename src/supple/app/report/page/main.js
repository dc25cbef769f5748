// Player: controls, chart and renderer.
const find = (id) => document.getElementById(id);

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

class Page {
  constructor(motion, colours) {
    this.motion = motion;
    this.colours = colours;
    const { head } = motion;
    const canvas = (this.canvas = find("scene"));
    this.renderer = new Renderer(canvas, motion, colours);
    this.camera = new OrbitCamera(canvas, head, () => this.requestDraw());
    this.camera.tapped = (event) => this.pick(event);
    this.chart = new Chart(find("chart"), motion, (time) => this.seek(time));
    this.time = 0;
    this.mode = "soft";
    this.speed = 1;
    this.wire = false;
    this.clay = head.clay || !colours.own;
    this.obstacles = head.obstacles.length > 0;
    this.playing = !matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.connect();
    this.showVertex();
    document.body.classList.replace("trying", "live");
    this.show();
    this.requestDraw();
  }

  connect() {
    for (const button of document.querySelectorAll("[data-mode]"))
      button.addEventListener("click", () => { this.mode = button.dataset.mode; this.show(); });
    find("clip")?.addEventListener("change", (event) => this.choose(+event.target.value));
    find("play").addEventListener("click", () => this.toggle());
    find("scrub").addEventListener("input", (event) =>
      this.seek((event.target.value / 1000) * this.motion.duration));
    find("speed").addEventListener("change", (event) => { this.speed = +event.target.value; });
    find("wire").addEventListener("click", () => { this.wire = !this.wire; this.show(); });
    find("clay").hidden = !this.colours.own;
    find("clay").addEventListener("click", () => { this.clay = !this.clay; this.show(); });
    find("obstacles").hidden = !this.obstacles;
    find("obstacles").addEventListener("click", () => {
      this.obstacles = !this.obstacles;
      this.show();
    });
    find("home").addEventListener("click", () => { this.camera.home(); this.requestDraw(); });
    find("theme").addEventListener("click", () => {
      document.documentElement.dataset.theme = isDark() ? "light" : "dark";
      this.show();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.show());
    addEventListener("resize", () => this.requestDraw());
    addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("webglcontextlost", (event) => {
      event.preventDefault();
      fail("the browser lost the graphics context; load the page again");
    });
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const focused = event.target.tagName;
    if (focused === "SELECT" || (focused === "BUTTON" && event.key === " ")) return;
    const one = 1 / this.motion.head.rate;
    if (event.key === " ") this.toggle();
    else if (event.key === "ArrowRight" && focused !== "INPUT") this.seek(this.time + one);
    else if (event.key === "ArrowLeft" && focused !== "INPUT") this.seek(this.time - one);
    else return;
    event.preventDefault();
  }

  choose(clip) {
    this.motion.choose(clip);
    const { head } = this.motion;
    this.camera.frame(head);
    this.chart.choose(head.vertex);
    this.time = 0;
    find("subtitle").textContent = head.subtitle;
    find("far").textContent = `≥ ${head.far}`;
    this.showVertex();
    this.show();
  }

  toggle() {
    this.playing = !this.playing;
    if (this.playing && this.time >= this.motion.duration) this.time = 0;
    this.show();
  }

  seek(time) {
    this.playing = false;
    this.time = Math.min(Math.max(time, 0), this.motion.duration);
    this.show();
  }

  // Update the buttons and redraw.
  show() {
    for (const button of document.querySelectorAll("[data-mode]"))
      button.setAttribute("aria-pressed", String(button.dataset.mode === this.mode));
    find("wire").setAttribute("aria-pressed", String(this.wire));
    find("clay").setAttribute("aria-pressed", String(this.clay && this.colours.own));
    find("obstacles").setAttribute("aria-pressed", String(this.obstacles));
    find("play").setAttribute("aria-label", this.playing ? "pause" : "play");
    find("play").dataset.playing = this.playing;
    find("legend").hidden = this.mode !== "difference";
    find("halves").hidden = this.mode !== "both";
    this.requestDraw();
  }

  requestDraw() {
    if (this.requested) return;
    this.requested = true;
    requestAnimationFrame((now) => {
      this.requested = false;
      this.step(now);
      this.draw();
      if (this.playing) this.requestDraw();
      else this.last = undefined;
    });
  }

  step(now) {
    if (this.playing && this.last !== undefined) {
      const { duration } = this.motion;
      this.time += this.speed * Math.min((now - this.last) / 1000, 0.1);
      if (this.time > duration) this.time = duration > 0 ? this.time % duration : 0;
    }
    this.last = this.playing ? now : undefined;
  }

  draw() {
    const { canvas, motion, renderer } = this;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const wide = Math.round(canvas.clientWidth * ratio);
    const tall = Math.round(canvas.clientHeight * ratio);
    if (!wide || !tall) return;
    if (canvas.width !== wide || canvas.height !== tall) {
      canvas.width = wide;
      canvas.height = tall;
    }
    motion.moveTo(this.time);
    const both = this.mode === "both";
    const names = both ? ["rig", "soft"] : [this.mode === "rig" ? "rig" : "soft"];
    renderer.refresh(names);
    renderer.clear();
    const root = motion.rootAt(this.time);
    const standing = [root[4], 0, root[6]], model = rigid(root);
    this.views = names.map((name, k) => {
      const box = both ? [Math.round((k * wide) / 2), 0, Math.round(wide / 2), tall]
        : [0, 0, wide, tall];
      const middle = [standing[0], motion.head.ground, standing[2]];
      const look = { dark: isDark(), wire: this.wire, heat: this.mode === "difference",
        own: !this.clay, obstacles: this.obstacles,
        colour: name === "rig" ? [0.7, 0.72, 0.76] : motion.head.colour };
      const view = { ...this.camera.view(standing, box[2] / box[3]), box, middle, model, look, name, time: this.time };
      renderer.draw(name, view);
      return view;
    });
    find("scrub").value = motion.duration ? (1000 * this.time) / motion.duration : 0;
    find("clock").textContent = `${(motion.head.start + this.time).toFixed(2)} s`;
    this.chart.draw(this.time);
    this.placeDot(ratio);
  }

  // Position of a point on the canvas, in CSS pixels from the upper left, and its depth.
  onCanvas(view, point, at, ratio) {
    const [x, y, , w] = transformed(times(view.camera, view.model), point, at);
    const [left, bottom, wide, tall] = view.box;
    return [(left + (0.5 + x / w / 2) * wide) / ratio,
      (this.canvas.height - bottom - (0.5 + y / w / 2) * tall) / ratio, w];
  }

  placeDot(ratio) {
    const view = this.views[this.views.length - 1];
    const points = this.motion[view.name];
    const [x, y] = this.onCanvas(view, points, 3 * this.chart.vertex, ratio);
    find("dot").style.transform = `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px)`;
  }

  // Choose the vertex under a tap for the chart.
  pick(event) {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    const view = this.views.find(({ box: b }) => x * ratio < b[0] + b[2]) || this.views[0];
    const points = this.motion[view.name], { normals } = this.renderer.bodies[view.name];
    const back = view.model;
    let best = -1, nearest = Infinity;
    for (let i = 0; i < points.length; i += 3) {
      const [px, py, depth] = this.onCanvas(view, points, i, ratio);
      const off = Math.hypot(px - x, py - y);
      if (off > 12) continue;
      const world = transformed(back, points, i);
      const normal = sub(transformed(back, normals, i), [back[12], back[13], back[14]]);
      if (dot(normal, sub(view.eye, world)) <= 0) continue;
      const far = depth + (0.004 * off * this.motion.head.size);
      if (far < nearest) [best, nearest] = [i / 3, far];
    }
    if (best < 0) return;
    this.chart.choose(best);
    this.showVertex();
    this.requestDraw();
  }

  showVertex() {
    find("vertex").textContent = this.chart.vertex.toLocaleString("en");
    find("beside").textContent = this.chart.beside ? ", relative to the rig" : "";
  }
}

function fail(why) {
  document.body.classList.remove("live", "trying");
  find("why").textContent = why;
}

(async () => {
  try {
    if (typeof DecompressionStream === "undefined") throw new Error("this browser is too old");
    const head = JSON.parse(find("head").textContent);
    const motion = await BakedMotion.from(head, find("data").textContent);
    const pictures = await loadedPictures(JSON.parse(find("textures").textContent));
    window.supplePage = new Page(motion, new Colours(motion, pictures));
  } catch (error) {
    fail(error.message);
  }
})();
