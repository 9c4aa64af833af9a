/** What is used of it, so that the package is made of no more. */
export { input, password, select } from "@inquirer/prompts";
