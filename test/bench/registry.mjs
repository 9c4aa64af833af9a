// What npm asks of a registry, for the packages in a folder: `node registry.mjs <folder of .tgz files>`.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

const folder = process.argv[2];
const packages = new Map();
for (const file of readdirSync(folder)) {
  const json = execFileSync("tar", ["-xzOf", join(folder, file), "package/package.json"], { encoding: "utf8" });
  const manifest = JSON.parse(json);
  packages.set(manifest.name, { file, manifest });
}

const server = createServer((request, response) => {
  const name = decodeURIComponent(request.url.slice(1));
  if (name.endsWith(".tgz")) return void response.end(readFileSync(join(folder, name)));
  const { file, manifest } = packages.get(name) ?? {};
  if (!manifest) return void response.writeHead(404).end("{}");
  const dist = { tarball: `http://${request.headers.host}/${file}` };
  const versions = { [manifest.version]: { ...manifest, dist } };
  response.setHeader("Content-Type", "application/json");
  response.end(JSON.stringify({ name, "dist-tags": { latest: manifest.version }, versions }));
});
server.listen(0, "127.0.0.1", () => process.stdout.write(`http://127.0.0.1:${server.address().port}`));
