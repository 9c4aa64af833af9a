// The image of .github/Containerfile, built and run by podman.
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const slim = "node:22-slim";
const image = "vidgen-rehearsal";

function podman(...argv) {
  return execFileSync("podman", argv, { encoding: "utf8", stdio: "pipe" }).trim();
}

/** Finds an image with Node to build on, and runs it. Returns its name, or the reason why no container can be used on this machine. */
export function findBase({ folder, node }) {
  try {
    podman("--version");
    const isPulled = spawnSync("podman", ["pull", "--quiet", slim]).status === 0;
    const base = isPulled ? slim : importBase(join(folder, "base"), node);
    podman("run", "--rm", "--network", "none", base, "node", "--version");
    return { base };
  } catch (error) {
    return { reason: error.message.trim().split("\n").at(-1) };
  }
}

/** Makes an image of a Node, npm and five programs of this machine, for one that can pull none. */
function importBase(folder, node) {
  const programs = ["sh", "env", "ln", "mkdir", "chown"].map((name) => `/usr/bin/${name}`);
  const found = execFileSync("ldd", [node, ...programs], { encoding: "utf8" });
  const libraries = [...found.matchAll(/(\/\S+) \(0x/g)].map(([, path]) => path);
  // The bundler of the build asks for it.
  libraries.push(join(dirname(libraries.find((path) => path.includes("/libc.so"))), "librt.so.1"));
  const copy = (from, to = from) => cpSync(from, join(folder, to), { recursive: true, dereference: true });
  for (const path of [...programs, ...new Set(libraries)]) copy(path);
  copy(node, "/usr/local/bin/node");
  const npm = "/usr/local/lib/node_modules/npm";
  copy(join(execFileSync("npm", ["root", "--global"], { encoding: "utf8" }).trim(), "npm"), npm);
  symlinkSync(`${npm}/bin/npm-cli.js`, join(folder, "usr/local/bin/npm"));
  for (const name of ["etc", "tmp"]) mkdirSync(join(folder, name));
  chmodSync(join(folder, "tmp"), 0o1777);
  symlinkSync("usr/bin", join(folder, "bin"));
  writeFileSync(join(folder, "etc/passwd"), "root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/tmp:/bin/sh\n");
  writeFileSync(join(folder, "etc/group"), "root:x:0:\nnode:x:1000:\n");
  const pipe = 'tar -C "$0" -c . | podman import --quiet --change ENV=PATH=/usr/local/bin:/usr/bin - "$1"';
  execFileSync("sh", ["-c", pipe, folder, `${image}-base`], { stdio: "pipe" });
  return `${image}-base`;
}

/** Builds the image with packages from the registry, makes a video in it, and starts it again. Resolves with a line about it. */
export async function useContainer({ root, folder, registry, base }) {
  const npmrc = join(folder, "container-npmrc");
  writeFileSync(npmrc, `registry=${registry}\n`);
  const settings = ["--build-arg", `NODE_IMAGE=${base}`, "--network", "host", "--volume", `${npmrc}:/root/.npmrc:ro`];
  const containerfile = join(root, ".github/Containerfile");
  podman("build", "--quiet", "--format", "docker", ...settings, "--file", containerfile, "--tag", image, root);
  const id = podman("run", "--detach", "--network", "none", image);
  const inside = (...argv) => podman("exec", id, ...argv);
  const generate = (path) => {
    const stdout = inside("vidgen", "generate", "a fox", "--local", "-d", "1", "--reuse", "-o", path);
    if (stdout !== path) throw new Error(`no video: ${stdout}`);
  };
  try {
    await waitUntilHealthy(id);
    if (inside("node", "-p", "process.getuid()") === "0") throw new Error("it runs as root");
    generate("/tmp/fox.mp4");
    podman("stop", "--time", "10", id);
    const code = podman("inspect", "--format", "{{.State.ExitCode}}", id);
    if (code !== "0") throw new Error(`exit code ${code} when it is stopped`);
    podman("start", id);
    await waitUntilHealthy(id);
    generate("/tmp/again.mp4");
    if (inside("vidgen", "list", "--json").split('"id"').length !== 2) throw new Error("it has forgotten its videos");
    const bytes = Number(podman("image", "inspect", "--format", "{{.Size}}", image));
    return `on ${base}, ${Math.round(bytes / 1e6)} MB`;
  } finally {
    podman("rm", "--force", "--volumes", id);
  }
}

async function waitUntilHealthy(id) {
  for (let round = 0; round < 60; round++) {
    if (spawnSync("podman", ["healthcheck", "run", id]).status === 0) return;
    await sleep(500);
  }
  throw new Error(`not healthy: ${podman("logs", id)}`);
}
