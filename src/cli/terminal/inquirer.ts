/** What is used of it, so that the package is made of no more. */
export { confirm, input, password, select } from "@inquirer/prompts";
