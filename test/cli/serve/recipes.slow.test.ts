import { existsSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { connect, createServer as createTcpServer, type Server } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { getRequestListener } from "@hono/node-server";
import { expect, onTestFinished, test } from "vitest";
import { readPage } from "../../../src/docs.ts";
import { createCertificate } from "../../faults/certificate.ts";
import { hasSwift, lacks, nginx, postgresPrograms } from "../../needs.ts";
import { startPostgres } from "../../postgres.ts";
import { createVllmOmni } from "../../server/engines/videos/fakes/vllm-omni.ts";
import { openSwift } from "../../server/media/swift.ts";
import { joinHosts } from "../hosts.ts";
import { bin, createMachine, type Machine } from "../machine.ts";

type PageName = Parameters<typeof readPage>[0];

/** The first block of a page in a language. */
const blockOf = (page: PageName, language: string) =>
  new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, "ms").exec(readPage(page).text)?.[1] ?? "";

const names = `
127.0.0.1 localhost
10.9.0.1 video.example gpu-1
10.9.0.2 db-1 gpu-2 s3.example
`;

/** Two machines that know these names and trust a certificate for them; nginx runs on the first one, with the lines of a page. */
async function openMachines(page: PageName): Promise<[Machine, Machine]> {
  const [one, two] = [await createMachine(), await createMachine()];
  const inFolder = (name: string, text: string) => writeFileSync(join(one.folder, name), text);
  const { cert, key } = createCertificate("video.example", "s3.example");
  inFolder("video.example.pem", cert);
  inFolder("video.example.key", key);
  inFolder("hosts", names);
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (name) => `${name}_temp_path ${one.folder}/${name};`,
  );
  const http = ["access_log off;", ...temporary, blockOf(page, "nginx")].join("\n");
  inFolder("nginx.conf", `user root; pid nginx.pid; error_log stderr; events {}\nhttp {\n${http}}\n`);
  const setup = "mount --bind hosts /etc/hosts; mount -t tmpfs tmpfs /etc/ssl; cp video.example.* /etc/ssl/";
  await joinHosts(one, two, setup);
  for (const { within } of [one, two]) within.push("env", "NODE_EXTRA_CA_CERTS=/etc/ssl/video.example.pem");
  one.runProgram(nginx ?? "", "-p", ".", "-c", "nginx.conf", "-g", "daemon off; master_process off;");
  return [one, two];
}

/** The HTTP status of a request to the proxy with this Host. */
async function statusOf(machine: Machine, host: string) {
  const options = { servername: "video.example", headers: { Host: host } };
  const script = `require("https").get("https://video.example/openapi.json", ${JSON.stringify(options)}, (r) => { console.log(r.statusCode); r.destroy(); })`;
  return (await machine.runNode("-e", script).ended).stdout.trim();
}

/** Creates an account as the page says, with these settings, and makes a video as its user. */
async function useAsColleague(machine: Machine, ...settings: string[]) {
  const run = (...argv: string[]) => machine.runProgram("env", ...argv).ended;
  const program = [process.execPath, bin];
  const created = await run(...settings, ...program, "accounts", "create", "ana", "--local");
  const loginWords = "login --base-url https://video.example";
  expect(created.stderr).toContain(`vidgen ${loginWords}\n`);
  machine.stdin = Buffer.from(created.stdout);
  const ana = [`VIDGEN_HOME=${join(machine.folder, "ana")}`, ...program];
  expect(await run(...ana, ...loginWords.split(" "), "--with-token")).toMatchObject({ code: 0 });
  machine.stdin = undefined;
  const generated = await run(
    ...ana,
    "generate",
    "a fox",
    "-m",
    "wan-2.5",
    "-d",
    "5",
    "--timeout",
    "60s",
    "-o",
    "fox.mp4",
  );
  expect(generated).toMatchObject({ code: 0, stdout: "fox.mp4\n" });
}

const firstLine = "Anyone with the address of a video can see it without a key, until it is deleted";

test.skipIf(nginx === undefined || lacks("network namespaces"))(
  "the recipe for one machine works as the page has it: unit, nginx, accounts, login",
  async () => {
    const [machine] = await openMachines("accounts");
    const unit = blockOf("accounts", "ini").replace(/\\\n +/g, "");
    const [, line = ""] = /^ExecStart=\/usr\/bin\/node \/usr\/bin\/vidgen (.*)$/m.exec(unit) ?? [];
    const server = machine.run(...line.split(" "));
    await server.said("Ctrl-C");
    for (const host of ["video.example", "video.example:443"]) expect(await statusOf(machine, host)).toBe("200");
    expect(await statusOf(machine, "evil.example")).toBe("403");
    await useAsColleague(machine);
    await server.said(firstLine);
  },
);

/** Passes connections on from a socket in the folder of a machine, which its processes reach, to a port outside of its network. */
function passOut(path: string, port: string) {
  listen(
    createTcpServer((socket) => {
      const other = connect(Number(port), "127.0.0.1");
      socket.pipe(other).pipe(socket);
      for (const end of [socket, other]) end.on("error", () => [socket, other].map((each) => each.destroy()));
    }),
    path,
  );
}

function listen(server: Server, path: string) {
  server.listen(path);
  onTestFinished(() => void server.close());
}

/** Passes connections on to such sockets: `doors` are a port, a socket, and whether the port speaks TLS. */
const relay = `
const { connect, createServer } = require("net");
const { readFileSync } = require("fs");
const secrets = { cert: readFileSync("/etc/ssl/video.example.pem"), key: readFileSync("/etc/ssl/video.example.key") };
for (const [port, path, isSecure] of JSON.parse(process.argv[1])) {
  const pass = (socket) => {
    const other = connect(path);
    socket.pipe(other).pipe(socket);
    for (const end of [socket, other]) end.on("error", () => [socket, other].map((each) => each.destroy()));
  };
  const server = isSecure ? require("tls").createServer(secrets, pass) : createServer(pass);
  server.listen(port, () => console.log("open " + port));
}
`;

async function openDoors(machine: Machine, ...doors: [port: number, path: string, isSecure?: boolean][]) {
  const { said } = machine.runNode("-e", relay, JSON.stringify(doors));
  for (const [port] of doors) await said(`open ${port}`);
}

test.skipIf([nginx, postgresPrograms].includes(undefined) || !hasSwift || lacks("network namespaces"))(
  "the recipe for several machines works as the page has it: PostgreSQL, S3, two processes, nginx",
  async () => {
    const page = readPage("several-machines").text;
    const machines = await openMachines("several-machines");
    const [one, two] = machines;
    const database = await startPostgres({ fsync: false });
    onTestFinished(database.close);
    const { port } = new URL(await database.createDatabase());
    const outside = await createMachine();
    outside.stdin = Buffer.from("password\npassword\n");
    const [, make = ""] = /^ {4}(createuser .*)$/m.exec(page) ?? [];
    const programs = `PATH=${postgresPrograms}:$PATH PGHOST=127.0.0.1 PGPORT=${port} PGUSER=postgres`;
    expect(await outside.runProgram("setsid", "-w", "sh", "-c", `export ${programs}; ${make}`).ended).toMatchObject({
      code: 0,
    });
    const { AWS_ENDPOINT_URL = "", AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY } = await openSwift();
    const socket = (name: string) => join(one.folder, name);
    passOut(socket("database"), port);
    passOut(socket("s3"), new URL(AWS_ENDPOINT_URL).port);
    const gpu = createVllmOmni({ completeAfterMs: 0 });
    listen(createServer(getRequestListener(gpu.fetch)), socket("gpu"));
    await openDoors(one, [8091, socket("gpu")]);
    await openDoors(two, [8091, socket("gpu")], [5432, socket("database")], [443, socket("s3"), true]);

    const [, lines = ""] = /^ {4}npm install pg.*\n((?: {4}.*\n)+)/m.exec(page) ?? [];
    const keys = `AWS_ACCESS_KEY_ID=${AWS_ACCESS_KEY_ID} AWS_SECRET_ACCESS_KEY=${AWS_SECRET_ACCESS_KEY}`;
    const script = lines
      .replace("AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=...", keys)
      .replace("npx vidgen", `exec ${process.execPath} ${bin}`);
    const servers = [];
    for (const { runProgram } of machines) {
      const server = runProgram("sh", "-ec", script);
      servers.push(server);
      await server.said("Ctrl-C");
    }
    for (const host of ["video.example", "video.example:443"]) expect(await statusOf(one, host)).toBe("200");
    expect(await statusOf(one, "evil.example")).toBe("403");
    await useAsColleague(one, "VIDGEN_DATABASE_URL=postgres://vidgen:password@db-1/vidgen");
    for (const { folder } of machines) expect(existsSync(join(folder, "home", "service", "videos"))).toBe(false);
    for (const { said } of servers) {
      await said(firstLine);
      await said("/api/");
    }
  },
);
