// Supple's soft tissue in a web page, a worker or node: the runtime of supple_runtime.h as WebAssembly, compiled from
// the same kernels as Supple's own step. Poses and positions are typed arrays; see docs/live.md.

const STATUS = { notReady: 8, refused: 9 };

/** Error of a file or an input; `status` is a number of `supple_status` in supple_runtime.h. */
export class SuppleError extends Error {
  constructor(message, status) {
    super(message);
    this.name = "SuppleError";
    this.status = status;
  }
}

async function bytesOf(source) {
  if (source instanceof Uint8Array) return source;
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  const url = new URL(source, globalThis.location?.href ?? import.meta.url);
  if (url.protocol === "file:" && typeof process !== "undefined") {
    return new Uint8Array(await (await import("node:fs/promises")).readFile(url));
  }
  const answer = await fetch(url);
  if (!answer.ok) throw new SuppleError(`${url}: the server answers ${answer.status}`, 1);
  return new Uint8Array(await answer.arrayBuffer());
}

/** A compiled runtime, with memory for any number of models and bodies. */
export class Runtime {
  #next;
  #free = new Map();

  /** Load the WebAssembly module: its bytes, or its address; by default supple.wasm beside this file. */
  static async load(source = new URL("supple.wasm", import.meta.url)) {
    const { instance } = await WebAssembly.instantiate(await bytesOf(source), {});
    return new Runtime(instance.exports);
  }

  constructor(exports) {
    this.calls = exports;
    this.#next = Math.ceil(exports.__heap_base.value / 64) * 64;
    exports._initialize?.();
  }

  /** Open a .live file that `supple export --target web` wrote: its bytes, or its address. */
  async open(source) {
    return new Model(this, await bytesOf(source));
  }

  allocate(size) {
    const padded = Math.ceil(size / 64) * 64;
    const used = this.#free.get(padded)?.pop();
    if (used !== undefined) return used;
    const at = this.#next;
    const missing = at + padded - this.calls.memory.buffer.byteLength;
    if (missing > 0) this.calls.memory.grow(Math.ceil(missing / 65536));
    this.#next = at + padded;
    return at;
  }

  release(at, size) {
    const padded = Math.ceil(size / 64) * 64;
    if (!this.#free.has(padded)) this.#free.set(padded, []);
    this.#free.get(padded).push(at);
  }

  text(at) {
    if (at === 0) return undefined;
    const bytes = new Uint8Array(this.calls.memory.buffer);
    let end = at;
    while (bytes[end] !== 0) end++;
    return new TextDecoder().decode(bytes.slice(at, end));
  }

  view(Type, at, length) {
    return new Type(this.calls.memory.buffer, at, length);
  }
}

const MODEL_BYTES = 512;

/** An open model. */
export class Model {
  constructor(runtime, bytes) {
    const { calls } = runtime;
    this.runtime = runtime;
    this.size = bytes.length;
    this.data = runtime.allocate(bytes.length + 64);
    runtime.view(Uint8Array, this.data, bytes.length).set(bytes);
    this.at = runtime.allocate(MODEL_BYTES);
    const status = calls.supple_open(this.at, this.data, BigInt(bytes.length));
    if (status !== 0) {
      this.free();
      throw new SuppleError(runtime.text(calls.supple_status_text(status)), status);
    }
    this.poseSize = Number(calls.supple_pose_size(this.at));
    this.vertexCount = Number(calls.supple_vertex_count(this.at));
    this.dt = calls.supple_dt(this.at);
    this.name = runtime.text(calls.supple_text(this.at, this.#texted("name")));
    /** Names of the numbers of a pose. */
    this.parameters = runtime.text(calls.supple_text(this.at, this.#texted("parameters"))).split("\n");
  }

  /** (s,) the rest pose, a copy. */
  get restPose() {
    return this.runtime.view(Float64Array, this.runtime.calls.supple_rest_pose(this.at), this.poseSize).slice();
  }

  /** Three vertices of each triangle, a copy. */
  get triangles() {
    const count = 3 * Number(this.runtime.calls.supple_triangle_count(this.at));
    return this.runtime.view(Int32Array, this.runtime.calls.supple_triangles(this.at), count).slice();
  }

  /** Make a body of this model, at rest. */
  make() {
    return new Body(this);
  }

  /** Give the model's memory back; its bodies must not be used any more. */
  free() {
    if (this.data === 0) return;
    this.runtime.release(this.data, this.size + 64);
    this.runtime.release(this.at, MODEL_BYTES);
    this.data = 0;
  }

  #texted(name) {
    const at = this.at + MODEL_BYTES - 64;
    const bytes = new TextEncoder().encode(name);
    const target = this.runtime.view(Uint8Array, at, 64);
    target.fill(0);
    target.set(bytes.slice(0, 63));
    return at;
  }
}

/** One moving body. */
export class Body {
  constructor(model) {
    const { runtime } = model;
    const { calls } = runtime;
    this.model = model;
    this.bytes = Number(calls.supple_instance_size(model.at));
    this.memory = runtime.allocate(this.bytes);
    this.inputs = runtime.allocate(8 * model.poseSize + 16 * 8 + 3 * 8);
    this.at = calls.supple_make(model.at, this.memory, BigInt(this.bytes));
    this.reset();
  }

  /** Start at rest at a pose and a root, 16 numbers row by row; by default the rest pose and the identity. */
  reset(pose = null, root = null) {
    this.#check(this.model.runtime.calls.supple_reset(this.at, ...this.#given(pose, root)));
  }

  /** Go to a pose and a root with the flesh as it is: no inertia acts. */
  teleport(pose = null, root = null) {
    this.#check(this.model.runtime.calls.supple_teleport(this.at, ...this.#given(pose, root)));
  }

  /** Advance by `model.dt` to a pose and a root; null is where it was. Returns bits of limits that acted. */
  step(pose = null, root = null) {
    const { calls } = this.model.runtime;
    this.#check(calls.supple_step(this.at, ...this.#given(pose, root)));
    return Number(calls.supple_limits(this.at));
  }

  /** Add a force in newtons, in the world, on a skin vertex in the next step. */
  poke(vertex, force) {
    if (force.length !== 3) throw new SuppleError(`a force has 3 numbers, not ${force.length}`, STATUS.refused);
    const { runtime } = this.model;
    const at = this.inputs + 8 * this.model.poseSize + 16 * 8;
    runtime.view(Float64Array, at, 3).set(force);
    this.#check(runtime.calls.supple_poke(this.at, BigInt(vertex), at));
  }

  /** Skin in the world, three numbers a vertex: a view that holds until the next call, or `out`. */
  surface(out = null) {
    const { runtime } = this.model;
    this.#check(runtime.calls.supple_surface(this.at, 0));
    const skin = runtime.view(Float32Array, runtime.calls.supple_skin(this.at), 3 * this.model.vertexCount);
    if (out === null) return skin;
    out.set(skin);
    return out;
  }

  /** Factor on the stiffness, 0.001 to 1000. */
  set stiffness(factor) {
    this.#check(this.model.runtime.calls.supple_set_stiffness(this.at, factor));
  }

  /** Seconds since the last reset or teleport. */
  get time() {
    return this.model.runtime.calls.supple_time(this.at);
  }

  /** Take over the state of another body of the same model. */
  copy(other) {
    if (other.model.runtime !== this.model.runtime) throw new SuppleError("the bodies are of different runtimes", 10);
    this.#check(this.model.runtime.calls.supple_copy(other.at, this.at));
  }

  /** Give the body's memory back. */
  free() {
    if (this.memory === 0) return;
    this.model.runtime.release(this.memory, this.bytes);
    this.model.runtime.release(this.inputs, 8 * this.model.poseSize + 16 * 8 + 3 * 8);
    this.memory = 0;
  }

  #given(pose, root) {
    const { runtime, poseSize } = this.model;
    const rootAt = this.inputs + 8 * poseSize;
    if (pose !== null) {
      if (pose.length !== poseSize) throw new SuppleError(`a pose has ${poseSize} numbers, not ${pose.length}`, STATUS.refused);
      runtime.view(Float64Array, this.inputs, poseSize).set(pose);
    }
    if (root !== null) {
      if (root.length !== 16) throw new SuppleError(`a root has 16 numbers, not ${root.length}`, STATUS.refused);
      runtime.view(Float64Array, rootAt, 16).set(root);
    }
    return [pose === null ? 0 : this.inputs, root === null ? 0 : rootAt];
  }

  #check(status) {
    if (status === 0) return;
    const { calls } = this.model.runtime;
    const refused = status === STATUS.refused ? this.model.runtime.text(calls.supple_error(this.at)) : "";
    throw new SuppleError(refused || this.model.runtime.text(calls.supple_status_text(status)), status);
  }
}

/** Load a runtime, and open a model: two addresses, or bytes. */
export async function load(model, wasm = undefined) {
  return (await Runtime.load(wasm)).open(model);
}
