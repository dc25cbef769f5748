/** Address of a file, or its bytes. */
export type Source = string | URL | Uint8Array | ArrayBuffer;
/** Numbers of a pose, of a root or of a force. */
export type Numbers = ArrayLike<number>;

/** Error of a file or an input; `status` is a number of `supple_status` in supple_runtime.h. */
export class SuppleError extends Error {
  readonly status: number;
}

/** A compiled runtime, with memory for any number of models and bodies. */
export class Runtime {
  static load(source?: Source): Promise<Runtime>;
  open(source: Source): Promise<Model>;
}

/** An open model. */
export class Model {
  readonly name: string;
  /** Seconds of a step. */
  readonly dt: number;
  readonly poseSize: number;
  readonly vertexCount: number;
  /** Names of the numbers of a pose. */
  readonly parameters: string[];
  readonly restPose: Float64Array;
  readonly triangles: Int32Array;
  make(): Body;
  free(): void;
}

/** One moving body. */
export class Body {
  readonly model: Model;
  /** Seconds since the last reset or teleport. */
  readonly time: number;
  /** Factor on the stiffness, 0.001 to 1000. */
  set stiffness(factor: number);
  reset(pose?: Numbers | null, root?: Numbers | null): void;
  teleport(pose?: Numbers | null, root?: Numbers | null): void;
  step(pose?: Numbers | null, root?: Numbers | null): number;
  poke(vertex: number, force: Numbers): void;
  surface(out?: Float32Array | null): Float32Array;
  copy(other: Body): void;
  free(): void;
}

/** Load a runtime, and open a model. */
export function load(model: Source, wasm?: Source): Promise<Model>;
