// Sends changes of persons through one unmodified SDK, some of them within one millisecond:
// node order.mjs SDK URL KEY USERS CHANGES MILLISECONDS
// Each user's changes set "n" to 0, 1, 2… and "first" once. The last line printed is a JSON
// object: every failure that the SDK reported.
import RudderStack from '@rudderstack/rudder-sdk-node'
import { Analytics } from '@segment/analytics-node'
import { CloudEvent, emitterFor, Mode } from 'cloudevents'
import { PostHog } from 'posthog-node'

const [sdk, url, key] = process.argv.slice(2, 5)
const [users, changes, milliseconds] = process.argv.slice(5).map(Number)
const rest = (ms) => new Promise((r) => setTimeout(r, ms))
const failures = []

// Every user changes a few times in a row, then the next, so that a batch ends anywhere.
async function all(change) {
  const pause = milliseconds / changes
  for (let n = 0; n < changes; ) {
    const row = Math.min(1 + (n % 4), changes - n)
    for (let u = 0; u < users; u++) {
      for (let k = 0; k < row; k++) change(`${sdk}-${u}`, n + k)
    }
    n += row
    await rest(pause * row)
  }
}

async function posthog() {
  const client = new PostHog(key, { host: url, fetchRetryCount: 100, fetchRetryDelay: 500, maxQueueSize: 100000 })
  client.on('error', (e) => failures.push(String(e)))
  await all((u, n) => client.capture({ distinctId: u, event: 'changed', properties: { n, $set: { n }, $set_once: { first: n } } }))
  await client.shutdown(120_000)
}

// Traits are set, so that the order of the stored events shows which was set first.
async function segment() {
  const client = new Analytics({ writeKey: key, host: url, path: '/v1/batch', maxRetries: 100 })
  client.on('error', (e) => failures.push(`${e.code} ${e.reason}`))
  await all((u, n) => client.identify({ userId: u, traits: { n } }))
  await client.closeAndFlush({ timeout: 120_000 })
}

async function rudderstack() {
  const client = new RudderStack(key, { dataPlaneUrl: url, flushInterval: 500, logLevel: 'silent', retryCount: 100, axiosRetryConfig: { retryDelay: () => 500 } })
  await all((u, n) => client.identify({ userId: u, traits: { n } }, (err) => err && failures.push(String(err))))
  for (let flushed; !flushed; ) await client.flush((_, data) => (flushed = !data)) // without data: nothing was left
}

// The library leaves sending and resending to its user: each user's events wait for the earlier ones.
async function cloudevents() {
  const send = async (message) => {
    while ((await fetch(`${url}/v1/cloudevents`, { method: 'POST', headers: { ...message.headers, 'X-Api-Key': key }, body: message.body })).status !== 202) await rest(500)
  }
  const emit = emitterFor(send, { mode: Mode.BINARY })
  const sent = {}
  await all((u, n) => {
    const event = new CloudEvent({ source: '/order', subject: u, type: 'changed', data: { n, $set: { n }, $set_once: { first: n } } })
    sent[u] = (sent[u] ?? Promise.resolve()).then(() => emit(event)).catch((e) => failures.push(String(e)))
  })
  await Promise.all(Object.values(sent))
}

await { posthog, segment, rudderstack, cloudevents }[sdk]()
// An SDK may still log what a request of its own came to, so the report waits for the end.
process.on('exit', () => console.log(JSON.stringify({ sdk, failures })))
