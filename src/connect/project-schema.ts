/** Messages that do not repeat the value, because a hostile file must not decide what is printed. */
const must = (what: string) => ({ error: `must be ${what}` });

/** The schema of vidgen.json, for vidgen and, as JSON Schema, for editors. zod is loaded on demand. */
export async function loadProjectSchema() {
  const { array, describe, int, minLength, minimum, number, optional, positive, record, strictObject, string, union } =
    await import("zod/mini");
  const text = (description: string) =>
    optional(string(must("a non-empty text")).check(minLength(1, must("a non-empty text")), describe(description)));
  const seconds = must("a number of seconds");
  const values = {
    model: text("The model, such as veo-3.1."),
    aspectRatio: text("Width:height, such as 9:16."),
    duration: optional(
      union([number(seconds).check(positive(seconds)), string(seconds)], seconds).check(
        describe("The length in seconds, such as 8."),
      ),
    ),
    resolution: text("Such as 720p."),
    seed: optional(
      int(must("a whole number, at least 0")).check(
        minimum(0, must("a whole number, at least 0")),
        describe("The same request with the same seed gives a similar video, where the model takes one."),
      ),
    ),
    style: text("Added to the end of each prompt."),
    output: text("Where videos are saved, as -o: a path inside of the folder of this file."),
  };
  const preset = strictObject(values, must("an object"));
  const path = string(must("the path of an image")).check(minLength(1, must("the path of an image")));
  const images = must("the path of an image, or a list of them");
  return strictObject(
    {
      $schema: optional(string(must("an address")).check(describe("The address of this schema, for editors."))),
      ...values,
      presets: optional(
        record(string(), preset, must("an object of presets by name")).check(
          describe("Values by name: --preset <name> uses them."),
        ),
      ),
      references: optional(
        record(string(), union([path, array(path, images)], images), must("an object of images by name")).check(
          describe("Images inside of the folder of this file, by name: @name in a prompt sends them."),
        ),
      ),
    },
    must("an object"),
  ).check(describe("vidgen.json: what a project makes with vidgen."));
}
