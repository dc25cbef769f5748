// World positions of the vertices of a .glb file as three.js plays them, as JSON.
//
//   node three_playback.mjs THREE FILE CLIP STEP TIME...
//
// THREE is the folder of the npm package "three", CLIP an animation's number, STEP prints every
// so many vertices only. Parts are printed in the order of nodes and primitives. Materials and
// pictures are left out of what is parsed, since node.js has no decoder of pictures.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, file, clip, step, ...times] = process.argv.slice(2);
const module = (path) => import(pathToFileURL(resolve(folder, path)).href);
const THREE = await module("build/three.module.js");
const { GLTFLoader } = await module("examples/jsm/loaders/GLTFLoader.js");

function withoutMaterials(data) {
  const length = data.readUInt32LE(12);
  const json = JSON.parse(data.subarray(20, 20 + length).toString());
  for (const name of ["materials", "textures", "images", "samplers"]) delete json[name];
  for (const name of ["extensionsUsed", "extensionsRequired", "extensions"]) delete json[name];
  for (const mesh of json.meshes ?? [])
    for (const primitive of mesh.primitives) delete primitive.material;
  let text = Buffer.from(JSON.stringify(json));
  text = Buffer.concat([text, Buffer.alloc((4 - (text.length % 4)) % 4, " ")]);
  const rest = data.subarray(20 + length);
  const head = Buffer.from(data.subarray(0, 20));
  head.writeUInt32LE(20 + text.length + rest.length, 8);
  head.writeUInt32LE(text.length, 12);
  return new Uint8Array(Buffer.concat([head, text, rest])).buffer;
}

const data = withoutMaterials(readFileSync(file));
const gltf = await new Promise((done, failed) => new GLTFLoader().parse(data, "", done, failed));
const mixer = new THREE.AnimationMixer(gltf.scene);
const action = mixer.clipAction(gltf.animations[Number(clip)]);
action.setLoop(THREE.LoopOnce);
action.clampWhenFinished = true;
action.play();

const nodeOf = (object) => {
  const found = gltf.parser.associations.get(object)?.nodes;
  return found === undefined ? nodeOf(object.parent) : found;
};
const meshes = [];
gltf.scene.traverse((object) => object.isMesh && meshes.push(object));
const key = (mesh) => [nodeOf(mesh), gltf.parser.associations.get(mesh)?.primitives ?? 0];
meshes.sort((a, b) => key(a)[0] - key(b)[0] || key(a)[1] - key(b)[1]);

const result = times.map((time) => {
  mixer.setTime(Number(time));
  gltf.scene.updateMatrixWorld(true);
  const rows = [];
  let number = 0;
  const place = new THREE.Vector3();
  for (const mesh of meshes)
    for (let k = 0; k < mesh.geometry.attributes.position.count; k++)
      if (number++ % Number(step) === 0)
        rows.push(mesh.getVertexPosition(k, place).applyMatrix4(mesh.matrixWorld).toArray());
  return rows;
});
console.log(JSON.stringify(result));
