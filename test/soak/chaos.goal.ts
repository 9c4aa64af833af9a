import { test } from "vitest";
import { prove } from "../faults/goal.ts";
import { postgresPrograms } from "../needs.ts";
import { chaos } from "./chaos.ts";

// `npm run soak -- chaos` runs this one alone.
if (postgresPrograms) prove(chaos, 1);
else test.skip(`${chaos.number}. ${chaos.title}: there is no PostgreSQL on this machine`);
