import { test } from "vitest";
import { prove } from "../faults/goal.ts";
import { postgresPrograms } from "../needs.ts";
import { sharedAway } from "./shared-away.ts";
import { sharedKeys } from "./shared-keys.ts";
import { sharedEngine, sharedKilled } from "./shared-killed.ts";
import { sharedRotation } from "./shared-rotation.ts";
import { sharedUpgrade } from "./shared-upgrade.ts";

// The same code as `npm run soak`, with smaller numbers.
for (const goal of [sharedKilled, sharedEngine, sharedAway, sharedKeys, sharedRotation, sharedUpgrade])
  if (postgresPrograms) prove(goal, 0.03);
  else test.skip(`${goal.number}. ${goal.title}: there is no PostgreSQL on this machine`);
