import { finish } from "../rules/finish.ts";
import { findGeneration } from "../rules/generation.ts";
import type { Context } from "../rules/rule.ts";
import type { Restoration } from "../store.ts";
import type { Database } from "./database.ts";
import { runRule } from "./run.ts";

/**
 * Distinguishes a restored copy from the database that a service has used since. The methods are synchronous; the caller runs changes in a
 * transaction.
 */
export function createProvenance(database: Database, context: Context) {
  return {
    read() {
      const row = database.get("SELECT runs, copied_at, restored_at FROM provenance");
      const textOf = (value: unknown) => (typeof value === "string" ? value : null);
      return { runs: Number(row?.runs), copiedAt: textOf(row?.copied_at), restoredAt: textOf(row?.restored_at) };
    },
    count: (runs: number) => void database.run("UPDATE provenance SET runs = ?", runs),
    restore({ runs, at, endOf }: Restoration): number {
      const rows = database.all(
        "SELECT id FROM generations WHERE status = 'processing' AND is_real AND engine IS NULL ORDER BY number",
      );
      for (const { id } of rows) {
        const generation = runRule(database, findGeneration(String(id)));
        if (!generation) throw new Error(`no generation ${id}`);
        runRule(database, finish(generation.id, endOf(generation), context));
      }
      database.run("UPDATE provenance SET runs = ?, copied_at = NULL, restored_at = ?", runs, at);
      return rows.length;
    },
  };
}

/** Marks the database of a file as a copy. */
export function markAsCopy(database: Database): void {
  database.run("UPDATE provenance SET copied_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')");
}
