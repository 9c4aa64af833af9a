import { request } from "node:http";
import { createApp, hashKey } from "/work/main/src/server/app.ts";
import { listen } from "/work/main/src/server/listen.ts";
import { createMemoryStore } from "/work/main/src/server/store.ts";
import { createVirtualClock } from "/work/main/test/clock.ts";
import { test } from "vitest";
test("x", async () => {
  const clock = createVirtualClock();
  const store = createMemoryStore();
  await store.addAccount({ name: "a", keyHash: hashKey("k"), credits: 100 });
  const app = createApp({ store, clock, mediaUrl: () => "", queue: { add() {}, async close() {} } });
  const s = await listen(app, { host: "127.0.0.1", port: 0 }, clock);
  for (const key of ["k", "wrong"]) for (const mb of [0.05, 0.5, 1.1, 3, 20]) for (const how of ["length", "chunked", "fetch"]) {
    const tally: Record<string, number> = {}; const t0 = performance.now();
    for (let i = 0; i < 12; i++) {
      const body = Buffer.alloc(mb * 1e6, "x");
      const headers = { Authorization: "Bearer " + key, "Content-Type": "application/json" };
      const r: string = how === "fetch" ? await fetch(s.url + "/api/generate", { method: "POST", body, headers }).then(async (x) => { await x.text(); return String(x.status) }, (e) => String(e.cause?.code)) : await new Promise((resolve) => {
        const q = request(s.url + "/api/generate", { method: "POST", headers: { ...headers, ...(how === "length" ? { "Content-Length": body.length } : {}) } }, (res) => {
          res.resume(); res.on("end", () => resolve(String(res.statusCode))); res.on("error", (e) => resolve("res " + e.message));
        });
        q.on("error", (e) => resolve("req " + e.message));
        q.end(body);
      });
      tally[r] = (tally[r] ?? 0) + 1;
    }
    console.log(key, mb, how, JSON.stringify(tally), Math.round(performance.now() - t0));
  }
}, 600000);
