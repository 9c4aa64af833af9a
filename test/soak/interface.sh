#!/bin/sh
# Runs the interface against a service, row by row, with curl and the tools of POSIX alone.
#
#   BASE_URL=http://127.0.0.1:8787 API_KEY=... [CALLBACK_URL=... CALLBACK_FILE=...] sh interface.sh
#
# One line a row, on stdout: "ok" or "FAIL", the section, what it says. Ends with 1 when a row falls short. CALLBACK_FILE is where whoever
# listens at CALLBACK_URL writes the bodies that arrive; without the two that row falls short.

uuid='[0-9a-f]\{8\}-[0-9a-f]\{4\}-[0-9a-f]\{4\}-[0-9a-f]\{4\}-[0-9a-f]\{12\}'
time='[0-9]\{4\}-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9]\.[0-9]\{3\}Z'
failures=0

# row <section> <what it says> <command...>: the row holds when the command succeeds.
row() {
  section=$1 says=$2
  shift 2
  if "$@"; then echo "ok    $section  $says"; else
    echo "FAIL  $section  $says: $reply"
    failures=$((failures + 1))
  fi
}

has() { printf '%s' "$reply" | grep -q "$1"; }
has_all() { for wanted in "$@"; do has "$wanted" || return 1; done; }
is_status() { [ "$code" = "$1" ]; }

# field <name>: the text of a field of the last reply.
field() { printf '%s' "$reply" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

# Both leave the body in $reply and the status in $code.
ask() {
  reply=$(curl -s -m 30 -w '\n%{http_code}' "$@")
  code=${reply##*
}
  reply=${reply%
*}
}
start() {
  ask -X POST "$BASE_URL/api/generate" -H "Authorization: Bearer $API_KEY" -H 'Content-Type: application/json' -d "$1"
}
look() { ask "$BASE_URL/api/generation-status?id=$1" -H "Authorization: Bearer $API_KEY"; }

# follow <id>: looks until it has ended, for two minutes at the most.
follow() {
  looks=0
  while look "$1"; [ $looks -lt 600 ] && has '"status":"processing"'; do
    looks=$((looks + 1))
    sleep 0.2
  done
}

start '{"prompt":"a red fox","model":"wan-2.5","duration":1}'
id=$(field id)
row 1 'a start returns at once with status processing' has_all '"status":"processing"' '"success":true'
row 2.1 'id is a UUID' has "\"id\":\"$uuid\""
row 2.1 'model and prompt are echoed' has_all '"model":"wan-2.5"' '"prompt":"a red fox"'
row 2.1 'created_at is ISO 8601 in UTC with milliseconds' has "\"created_at\":\"$time\""
row 2.3 'the envelope: success, data, remaining_credits as an integer' has '^{"success":true,"data":{.*},\("credits_charged":[0-9][0-9]*,\)\{0,1\}"remaining_credits":[0-9][0-9]*}$'
row 4.1 'the reply to a start is a 2xx' is_status 200
before=$(printf '%s' "$reply" | sed 's/.*"remaining_credits":\([0-9]*\).*/\1/')

look "$id"
row 4.2 'the status reply is not wrapped: id, status, video_url, thumbnail_url, created_at' \
  has_all "^{\"id\":\"$id\"" '"status":"' '"video_url":' '"thumbnail_url":' "\"created_at\":\"$time\""
start '{"prompt":"a slow fox [slow: 3s]","model":"wan-2.5","duration":1}'
slow=$(field id)
after=$(printf '%s' "$reply" | sed 's/.*"remaining_credits":\([0-9]*\).*/\1/')
row 3 'a start reduces the credits' [ "$after" -lt "$before" ]
look "$slow"
row 3 'while it is processing, both links are null' has_all '"status":"processing"' '"video_url":null' '"thumbnail_url":null'

follow "$id"
url=$(field video_url)
row 3 'processing becomes completed, with a video_url' has_all '"status":"completed"' '"video_url":"http'
row 2.1 'thumbnail_url is a string or null' has '"thumbnail_url":\(null\|"http\)'
reply=$(curl -s -m 30 -o /dev/null -w '%{http_code} %{content_type} %{size_download}' "$url")
row 2.1 'video_url is a link to an .mp4 file, which needs no key' has '^200 video/mp4 [1-9][0-9]*$'
reply=$(curl -s -m 30 -r 4-7 "$url")
row 2.1 'the file is one' has '^ftyp$'

start '{"prompt":"a fox [fail: out of film]","model":"wan-2.5"}'
follow "$(field id)"
row 3 'processing becomes failed' has_all '"status":"failed"' '"video_url":null'
row 4.2 'a failed one has an error' has '"error":"out of film"'

for model in sora-2 veo-3.1 kling-2.6 wan-2.5 ray-3 seedance minimax; do
  start "{\"prompt\":\"a fox\",\"model\":\"$model\",\"duration\":1}"
  row 2.2 "the model $model is known" has_all '"success":true' "\"model\":\"$model\""
done
pixel='data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
start "{\"prompt\":\"two foxes\",\"model\":\"kling-1.6-elements\",\"duration\":1,\"imageUrls\":[\"$pixel\",\"$pixel\"]}"
row 2.2 'the model kling-1.6-elements is known' has '"success":true'
follow "$(field id)"
row 8 'kling-1.6-elements makes one of 2 images' has '"status":"completed"'
start "{\"prompt\":\"a fox\",\"model\":\"kling-1.6-elements\",\"imageUrls\":[\"$pixel\"]}"
row 8 'kling-1.6-elements takes no single image' is_status 400
start "{\"prompt\":\"foxes\",\"model\":\"kling-1.6-elements\",\"imageUrls\":[\"$pixel\",\"$pixel\",\"$pixel\",\"$pixel\",\"$pixel\"]}"
row 8 'kling-1.6-elements takes no five images' is_status 400

for wish in '"aspectRatio":"9:16"' '"duration":1' '"duration":"1"' '"resolution":"720p"' "\"imageUrl\":\"$pixel\""; do
  start "{\"prompt\":\"a fox\",\"model\":\"wan-2.5\",$wish}"
  row 4.1 "a start takes $(printf '%.40s' "$wish")" has '"success":true'
done

ask "$BASE_URL/api/generation-status?id=$id"
row 5 'a request without a key is refused' is_status 401
ask "$BASE_URL/api/generation-status?id=$id" -H 'Authorization: Bearer no-such-key'
row 5 'a key that is not known is refused' is_status 401
ask -X POST "$BASE_URL/api/generate" -H 'Content-Type: application/json' -d '{"prompt":"a fox","model":"wan-2.5"}'
row 5 'a start without a key is refused' is_status 401

start "{\"prompt\":\"a fox that calls\",\"model\":\"wan-2.5\",\"duration\":1,\"callback_url\":\"$CALLBACK_URL\"}"
called=$(field id)
follow "$called"
waits=0
while [ $waits -lt 100 ] && ! grep -q "$called" "$CALLBACK_FILE" 2>/dev/null; do waits=$((waits + 1)); sleep 0.1; done
reply=$(grep "$called" "$CALLBACK_FILE" 2>/dev/null)
row 6 'the callback has id, status, video_url, thumbnail_url, created_at, completed_at' \
  has_all "\"id\":\"$called\"" '"status":"completed"' '"video_url":"http' '"thumbnail_url":' "\"created_at\":\"$time\"" "\"completed_at\":\"$time\""

start '{"prompt":"a fox","model":"no-such-model"}'
row 7 'an unknown model is a 4xx that says so' has_all '"error":' 'model'
start '{"model":"wan-2.5"}'
row 7 'a start without a prompt is a 4xx that says so' has_all '"error":' 'prompt'
start '{'
row 7 'a body that is no JSON is a 4xx' is_status 400
start '{"prompt":"a fox [credits: 0]","model":"wan-2.5"}'
row 7 'a start without credits is 402' is_status 402
look 00000000-0000-4000-8000-000000000000
row 4.2 'an id that is not known is 404' is_status 404
ask "$BASE_URL/v1/api/generate" -H "Authorization: Bearer $API_KEY"
row 9 'paths are unversioned' is_status 404

[ "$failures" -eq 0 ]
