import { join } from "node:path";
import { describe, onTestFinished } from "vitest";
import { openStore } from "../../../../src/server/store/sqlite/sqlite-store.ts";
import { makeFolder } from "../../../folder.ts";
import { testStore } from "../contract.ts";

describe("the contract of a store: SQLite", () =>
  testStore("SQLite", async () => {
    const file = join(makeFolder(), "service.db");
    return async () => {
      const store = await openStore(file);
      onTestFinished(() => store.close().catch(() => {}));
      return store;
    };
  }));
