import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { asRatio, compare, run, startServer } from "./measure.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** `npx` with an empty cache, beside that of a package of one file. Both, and what they need, come from a registry on this machine. */
export async function measureInstall({ env, folder, print }) {
  const one = join(folder, "one");
  const shelf = join(folder, "shelf");
  for (const made of [one, shelf]) mkdirSync(made);
  writeFileSync(join(one, "package.json"), '{"name":"one","version":"1.0.0","bin":"one.js"}');
  writeFileSync(join(one, "one.js"), "#!/usr/bin/env node\nconsole.log(1);\n");
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"));
  const needed = Object.entries(packages).filter(([path, { dev }]) => path !== "" && !dev);
  const specs = needed.map(([path, { version }]) => `${path.replace("node_modules/", "")}@${version}`);
  const pack = ["pack", "--ignore-scripts", "--pack-destination", shelf];
  run({ command: "npm", args: [...pack, root, one, ...specs], env, cwd: folder });
  const registry = await startServer("registry.mjs", shelf);
  const npx = (name) => () => {
    const npm_config_cache = mkdtempSync(join(folder, "cache-"));
    const args = ["exec", "--yes", "--no-audit", "--registry", registry.url, "--", name, "--version"];
    return { command: "npm", args, env: { ...env, npm_config_cache }, cwd: folder };
  };
  const [ms, oneMs] = compare([npx("vidgen"), npx("one")], 7);
  registry.close();
  print("cold npx / a package of one file", asRatio(ms, oneMs));
}
