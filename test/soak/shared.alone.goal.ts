import { test } from "vitest";
import { prove } from "../faults/goal.ts";
import { postgresPrograms } from "../needs.ts";
import { sharedSpeed } from "./shared-speed.ts";
import { sharedTakeover } from "./shared-takeover.ts";

// The goals of several processes that measure, in full: nothing else runs meanwhile.
for (const goal of [sharedTakeover, sharedSpeed])
  if (postgresPrograms) prove(goal, 1);
  else test.skip(`${goal.number}. ${goal.title}: there is no PostgreSQL on this machine`);
