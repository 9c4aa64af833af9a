/** What a prompt may ask of the local service; a test compares it with the service's own table. Loaded at start-up: plain data. */
export const directives = [
  ["[fail]", "the generation fails"],
  ["[fail: text]", "it fails, and that is its error"],
  ["[slow: 90s]", "it takes at least that long"],
  ["[http: 429]", "the start is refused once, with Retry-After, then accepted"],
  ["[http: 500]", "the start is answered with that status, 400 to 599; nothing is charged"],
  ["[hang]", "the start is executed and never answered"],
  ["[cut]", "the start is executed and its reply breaks off after the id"],
  ["[media: cut]", "the video breaks off halfway, unless it is asked for by a range"],
  ["[media: 403]", "its address answers once with that status, 400 to 599"],
  ["[no-video]", "the generation completes without a video_url"],
  ["[credits: 0]", "the start is refused for want of credits"],
] as const;
