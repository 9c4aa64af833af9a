import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { Handler } from "hono";
import type { ApiEnv } from "../http/message.ts";
import { keepLoaded } from "../keep-loaded.ts";

/** The paths of the page's files, which change with their content. */
export type AssetPaths = { script: string; style: string; icon: string };

export type Assets = {
  paths(): Promise<AssetPaths>;
  /** Answers at /assets/:name. */
  route: Handler<ApiEnv>;
};

type Asset = { path: string; body: Uint8Array<ArrayBuffer> | undefined; type: string };

/** Serves page.js, page.css and icon.svg from a folder. The names contain a hash of the content, so that a browser can cache them permanently. */
export function createAssets(folder: URL, headers: Record<string, string>): Assets {
  const load = keepLoaded(() => loadAll(folder));
  return {
    async paths() {
      const { script, style, icon } = await load();
      return { script: script.path, style: style.path, icon: icon.path };
    },
    async route(c, next) {
      c.set("isRoutine", true);
      const asset = Object.values(await load()).find(({ path }) => path === c.req.path);
      if (asset?.body === undefined) return next();
      return c.body(asset.body, 200, { ...headers, "Content-Type": asset.type, "Cache-Control": cachePermanently });
    },
  };
}

const cachePermanently = "public, max-age=31536000, immutable";

async function loadAll(folder: URL): Promise<Record<keyof AssetPaths, Asset>> {
  const load = async (name: string, extension: string, type: string): Promise<Asset> => {
    // There are no built files when the program runs from its source.
    const body = await readFile(new URL(`${name}.${extension}`, folder)).catch(() => undefined);
    const hashSuffix = body === undefined ? "" : `-${hash("sha256", body).slice(0, 12)}`;
    return { path: `/assets/${name}${hashSuffix}.${extension}`, body, type: `${type}; charset=utf-8` };
  };
  const [script, style, icon] = await Promise.all([
    load("page", "js", "text/javascript"),
    load("page", "css", "text/css"),
    load("icon", "svg", "image/svg+xml"),
  ]);
  return { script, style, icon };
}
