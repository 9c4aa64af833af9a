import { describe } from "vitest";
import { postgresPrograms } from "../../../needs.ts";
import { testStore } from "../contract.ts";
import { open, useServer } from "./open.ts";

describe("the contract of a store: PostgreSQL", { skip: postgresPrograms === undefined }, () => {
  const server = useServer();
  testStore("PostgreSQL", async () => {
    const url = await server().createDatabase();
    return async () => (await open(url)).store;
  });
});
