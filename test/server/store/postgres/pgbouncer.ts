import { spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { makeFolder } from "../../../folder.ts";
import { pgBouncer } from "../../../needs.ts";
import { freePort, ownUser } from "../../../postgres.ts";

/** Runs PgBouncer in front of a database until the test ends, with its own settings but for the mode. Resolves with the database's address behind it. */
export async function openPgBouncer(url: string, poolMode: "session" | "transaction"): Promise<string> {
  const { port, username, pathname } = new URL(url);
  const folder = makeFolder();
  const ownPort = await freePort();
  const settings = join(folder, "pgbouncer.ini");
  const users = join(folder, "users.txt");
  writeFileSync(users, `"${username}" ""\n`);
  writeFileSync(
    settings,
    `[databases]\n* = host=127.0.0.1 port=${port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = ${ownPort}
auth_type = trust\nauth_file = ${users}\nunix_socket_dir =\npool_mode = ${poolMode}\n`,
  );
  const user = ownUser();
  if (user) for (const path of [folder, settings, users]) chownSync(path, user.uid, user.gid);
  const child = spawn(pgBouncer ?? "", [settings], { cwd: folder, ...user, stdio: ["ignore", "ignore", "pipe"] });
  const ended = once(child, "close");
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  let log = "";
  await new Promise<void>((resolve, reject) => {
    child.stderr.setEncoding("utf8").on("data", (text) => {
      log += text;
      if (log.includes("process up")) resolve();
    });
    child.on("close", () => reject(new Error(`PgBouncer has ended: ${log}`)));
  });
  return `postgres://${username}@127.0.0.1:${ownPort}${pathname}`;
}
