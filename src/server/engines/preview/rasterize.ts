import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

let ready: Promise<void> | undefined;

/** Starts the WebAssembly of resvg, which can be done but once in a thread. */
async function loadResvg() {
  const resvg = await import("@resvg/resvg-wasm");
  ready ??= readWasm().then((bytes) => resvg.initWasm(bytes));
  await ready;
  return resvg;
}

function readWasm(): Promise<Uint8Array> {
  return readFile(createRequire(import.meta.url).resolve("@resvg/resvg-wasm/index_bg.wasm"));
}

/** Returns the pixels of an SVG, set in the given fonts alone: red, green, blue (each times alpha) and alpha, row by row. */
export async function rasterize(svg: string, fontBuffers: Uint8Array[]): Promise<Uint8Array> {
  const { Resvg } = await loadResvg();
  const drawing = new Resvg(svg, { font: { fontBuffers, loadSystemFonts: false, defaultFontFamily: "Inter" } });
  const image = drawing.render();
  const { pixels } = image;
  image.free();
  drawing.free();
  return pixels;
}
