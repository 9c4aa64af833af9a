/** A change in the store; `id` is the generation's. A page that receives a change fetches again what it shows. */
export type Change = Whose &
  (
    | { kind: "generation"; id: string }
    | { kind: "cancelled"; id: string }
    | ({ kind: "progress"; id: string } & Progress)
    /** A callback is due: there is work for the senders of all processes. */
    | { kind: "callback"; id: string }
    /** An attempt to deliver a callback was made. */
    | { kind: "attempt"; id: string }
    | { kind: "credits" }
    /** A process has an engine for waiting generations, which another process may not have. */
    | { kind: "servable"; needs: string }
    /** The account was disabled or deleted, and its event streams end. */
    | { kind: "refused" }
    /** Changes may have been missed, because the connection to the database was lost for some time. */
    | { kind: "missed" }
  );

/**
 * How much of a video is made, in percent; with `node`, how much of that node's work is done. `fetching` is set once the engine has completed it, and
 * says how far its download is, such as "its video cannot be fetched: HTTP 404".
 */
export type Progress = { percent?: number | undefined; node?: string | undefined; fetching?: string | undefined };

/** The account that may see the change, besides the service's owner; `null` if it concerns several. */
type Whose = { account: string | null };

/** What changes when a generation of an account ends. */
export function endChanges(
  { id, account }: { id: string; account: string },
  { isRefunded, isCancelled }: { isRefunded?: boolean | undefined; isCancelled?: boolean },
  delivery: object | undefined,
): Change[] {
  return [
    ...(isCancelled ? [{ kind: "cancelled", id, account } as const] : []),
    { kind: "generation", id, account },
    ...(delivery ? [{ kind: "callback", id, account } as const] : []),
    ...(isRefunded ? [{ kind: "credits", account } as const] : []),
  ];
}
