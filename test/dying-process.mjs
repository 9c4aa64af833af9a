// Preloaded into a process: SIGKILL ends it before it changes a file once more than `changes` times, and its date is `laterMs` ahead.
import files from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import process from "node:process";
import { isMainThread } from "node:worker_threads";

const { searchParams } = new URL(import.meta.url);
const changes = Number(searchParams.get("changes") ?? "Infinity");
const laterMs = Number(searchParams.get("laterMs") ?? "0");

let count = 0;
function wrap(owner, names, isChange = () => true) {
  for (const name of names) {
    const work = owner[name];
    owner[name] = function (...args) {
      if (isChange(...args) && ++count > changes) process.kill(process.pid, "SIGKILL");
      return work.apply(this, args);
    };
  }
}

if (isMainThread && changes < Number.POSITIVE_INFINITY) {
  const names = ["link", "mkdir", "rename", "rm", "rmdir", "unlink", "utimes"];
  const isWriting = (_path, flags = "r") => flags !== "r" && flags !== files.constants.O_RDONLY;
  const file = await files.promises.open(new URL(import.meta.url));
  wrap(Object.getPrototypeOf(file), ["write", "sync", "datasync", "truncate", "utimes"]);
  await file.close();
  wrap(files.promises, names);
  wrap(files.promises, ["open"], isWriting);
  wrap(
    files,
    [...names, "write", "fsync", "fdatasync", "ftruncate"].map((name) => `${name}Sync`),
  );
  wrap(files, ["openSync"], isWriting);
  syncBuiltinESMExports();
}

if (laterMs > 0) {
  const { Date: SystemDate } = globalThis;
  globalThis.Date = class extends SystemDate {
    constructor(...args) {
      if (args.length > 0) super(...args);
      else super(SystemDate.now() + laterMs);
    }
    static now() {
      return SystemDate.now() + laterMs;
    }
  };
}
