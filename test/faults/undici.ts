/** What undici 7 throws where nobody can catch it (nodejs/undici#5360), and the built program passes over: vitest would end with it. */
export function isPausedParser({ code, stack }: { code?: unknown; stack?: string | undefined }): boolean {
  return code === "ERR_ASSERTION" && /client-h1\.js|[\\/]undici-[\w-]+\.js/.test(stack ?? "");
}
