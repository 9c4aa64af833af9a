import { readFileSync } from "node:fs";
import { VidgenError } from "./errors.ts";

/** Of Node; its types are in no library that this project uses. */
declare const WebAssembly: { Memory: new (limits: { initial: number }) => object };

/**
 * Throws `output` if this process has no address space for that many more memories of WebAssembly. V8
 * reserves 10 GB for each, so that an access needs no check of its bounds. A limit such as `ulimit -v` counts
 * what is reserved.
 */
export function checkAddressSpace(memories: number): void {
  try {
    // V8 releases unused memories when it needs their space.
    Array.from({ length: memories }, () => new WebAssembly.Memory({ initial: 1 }));
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    const limit = readLimit();
    const limitText = limit === undefined ? "" : `: the limit of this process is ${limit}`;
    throw new VidgenError("output", `WebAssembly cannot reserve ${memories * 10} GB of address space${limitText}.`, {
      hint: "vidgen needs 24 GB, and 20 GB more for each preview that it renders at the same time. Raise the limit, as with `ulimit -v unlimited`, or set NODE_OPTIONS=--disable-wasm-trap-handler, with which WebAssembly reserves only what it uses.",
      cause,
    });
  }
}

/** The limit of the address space on Linux; `undefined` where it cannot be read. */
function readLimit(): string | undefined {
  try {
    const [, bytes] = /^Max address space +(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return (
      bytes && `${(Number(bytes) / 1024 ** 3).toFixed(1).replace(/\.0$/, "")} GB (ulimit -v ${Number(bytes) / 1024})`
    );
  } catch {
    return undefined;
  }
}
