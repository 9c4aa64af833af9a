import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { compare, line, run } from "./measure.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const most = 1.5;
const times = 15;

/** Goal 4: `npx` of the packed package from an empty cache, beside one of a single file. Both are tarballs here: the registry is set aside. */
export async function measureInstall({ env, folder, print }) {
  const one = join(folder, "one");
  mkdirSync(one);
  writeFileSync(join(one, "package.json"), '{"name":"one","version":"1.0.0","bin":"one.js"}');
  writeFileSync(join(one, "one.js"), "#!/usr/bin/env node\nconsole.log(1);\n");
  const npx = (tarball, name) => () => {
    const cache = mkdtempSync(join(folder, "cache-"));
    const args = ["exec", "--yes", "--offline", "--no-audit", `--package=${tarball}`, "--", name, "--version"];
    return { command: "npm", args, env: { ...env, npm_config_cache: cache }, cwd: folder };
  };
  const tarballs = [root, one].map((package_) => pack(package_, env, folder));
  const { a, b, ratio } = compare(npx(tarballs[0], "vidgen"), npx(tarballs[1], "one"), times);
  const more = `${a.toFixed(0)} ms / ${b.toFixed(0)} ms`;
  const figure = `${ratio.toFixed(2)} x`;
  print(
    line("4", "cold npx / a package of one file", { figure, limit: `at most ${most}`, isMet: ratio <= most, more }),
  );
  for (const name of readdirSync(folder))
    if (name.startsWith("cache-")) rmSync(join(folder, name), { recursive: true });
}

function pack(package_, env, folder) {
  const to = mkdtempSync(join(folder, "pack-"));
  run({ command: "npm", args: ["pack", "--ignore-scripts", "--pack-destination", to], env, cwd: package_ });
  return join(to, readdirSync(to)[0]);
}
