import type { Reader } from "../reads/reader.ts";
import { searchWords } from "../search.ts";
import type { Database } from "./database.ts";

/** A batch of changes runs synchronously until it is committed, so that no read finds half of a batch. */
export function createReader(database: Pick<Database, "all">): Reader {
  return {
    query: async (sql, ...values) => database.all(sql, ...values),
    isOneOf: (column) => `${column} IN (SELECT value FROM json_each(?))`,
    contains: (word) => ["instr(text, ?)", word],
    isScan: (text) => searchWords(text).length > 0,
    // Joins in the order that finds the first rows without reading all: texts first for all accounts, generations first for one account.
    searched: ({ account, label, isStarred }) =>
      account === undefined && label === undefined && !isStarred
        ? { tables: "search CROSS JOIN generations AS shown ON number = generation", order: "generation" }
        : { tables: "generations AS shown CROSS JOIN search ON generation = number", order: "number" },
  };
}
