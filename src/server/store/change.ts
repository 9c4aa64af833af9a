/** What has changed; `id` is the generation's. The browser then fetches what it shows of it. */
export type Change =
  | { kind: "generation"; id: string }
  | { kind: "cancelled"; id: string }
  | { kind: "progress"; id: string; percent: number }
  | { kind: "callback"; id: string }
  | { kind: "credits" };

/** What changes when a generation ends. */
export function endChanges(
  id: string,
  { isRefunded, isCancelled }: { isRefunded?: boolean | undefined; isCancelled?: boolean },
  delivery: object | undefined,
): Change[] {
  return [
    ...(isCancelled ? [{ kind: "cancelled", id } as const] : []),
    { kind: "generation", id },
    ...(delivery ? [{ kind: "callback", id } as const] : []),
    ...(isRefunded ? [{ kind: "credits" } as const] : []),
  ];
}
