import type { Io } from "../io.ts";
import { lookLocal } from "../local.ts";
import { type Check, failBy, pass, warn } from "./check.ts";

/** The local service: whether it runs on this machine, and where it keeps its state. */
export async function checkLocalService(io: Io): Promise<Check> {
  try {
    const { folder, note, baseUrl } = await lookLocal(io);
    const runs = baseUrl === undefined ? "does not run; --local runs it as needed" : `runs at ${baseUrl}`;
    const says = `${runs}; its state is in ${folder}`;
    return note === undefined ? pass("local service", says) : warn("local service", says, note);
  } catch (error) {
    return failBy("local service", error);
  }
}
