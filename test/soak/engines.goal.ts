import { prove } from "../faults/goal.ts";
import { engines } from "./engines.ts";

prove(engines, 1);
