import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { makeFolder } from "../folder.ts";

/** The program as it is installed. */
export const bin = fileURLToPath(new URL("../../bin/vidgen.js", import.meta.url));

type Ended = { code: number | null; signal: NodeJS.Signals | null; stdout: string; stderr: string };
type Running = { child: ChildProcess; said(text: string): Promise<void>; ended: Promise<Ended> };

export type Machine = Awaited<ReturnType<typeof createMachine>>;

/** A machine of its own: a folder, and whatever vidgen keeps in it. */
export async function createMachine() {
  const folder = makeFolder();
  const running = new Set<ChildProcess>();
  onTestFinished(() => {
    for (const child of running) child.kill("SIGKILL");
  });
  const runProgram = (program: string, ...args: string[]): Running => {
    const { NODE_EXTRA_CA_CERTS: _, ...inherited } = process.env;
    const env = { ...inherited, VIDGEN_HOME: join(folder, "home"), CI: "", VIDGEN_BASE_URL: "", VIDGEN_API_KEY: "" };
    const [command = "", ...words] = [...machine.within, program, ...args];
    const child = spawn(command, words, { cwd: folder, env });
    running.add(child);
    const ended = { stdout: "", stderr: "" };
    child.stdout.on("data", (chunk) => (ended.stdout += chunk));
    child.stderr.on("data", (chunk) => (ended.stderr += chunk));
    child.stdin.end(machine.stdin);
    const closed = once(child, "close").then(([code, signal]) => ({ code, signal, ...ended }));
    const said = async (text: string) => {
      while (!(ended.stdout + ended.stderr).includes(text)) {
        if (child.exitCode !== null || child.signalCode !== null)
          throw new Error(`ended without saying ${text}: ${ended.stderr}`);
        await Promise.race([once(child.stderr, "data"), once(child.stdout, "data"), closed]);
      }
    };
    return { child, said, ended: closed };
  };
  const runNode = (...args: string[]) => runProgram(process.execPath, ...args);
  const run = (...argv: string[]) => runNode(bin, ...argv);
  const machine = {
    folder,
    runProgram,
    runNode,
    run,
    vidgen: (...argv: string[]) => run(...argv).ended,
    /** The words of a program that runs each process, such as nsenter. */
    within: [] as string[],
    /** What is piped into each process. */
    stdin: undefined as Uint8Array | undefined,
  };
  return machine;
}

/** Runs a `serve` on any ports, and what it says of itself. */
export async function serve(machine: Machine, ...flags: string[]) {
  const server = machine.run("serve", "--port", "0", "--media-port", "0", "--json", ...flags);
  let document = "";
  server.child.stdout?.on("data", (chunk) => (document += chunk));
  await server.said("}");
  type Address = { base_url: string; media_url: string; api_key: string; page_url: string | null };
  const address = JSON.parse(document) as Address;
  const post = async (path: string, body: object, key = address.api_key) => {
    const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
    const reply = await fetch(address.base_url + path, { method: "POST", headers, body: JSON.stringify(body) });
    return { status: reply.status, body: (await reply.json()) as { data: { id: string }; remaining_credits: number } };
  };
  const start = (fields: object, key?: string) =>
    post("/api/generate", { prompt: "a fox", model: "wan-2.5", ...fields }, key);
  const status = async (id: string, key = address.api_key) => {
    const headers = { Authorization: `Bearer ${key}` };
    const reply = await fetch(`${address.base_url}/api/generation-status?id=${id}`, { headers });
    return { http: reply.status, ...((await reply.json()) as { status?: string }) };
  };
  return { ...server, address, start, status, post };
}
