/** What has changed; `id` is the generation's. The browser then fetches what it shows of it. */
export type Change =
  | { kind: "generation"; id: string }
  | { kind: "progress"; id: string; percent: number }
  | { kind: "callback"; id: string }
  | { kind: "credits" };
