// Sends a known history through one unmodified SDK: node send.mjs SDK URL KEY COUNT [PAUSE]
// PAUSE is how many milliseconds to rest after every hundred calls.
//
// Every user first acts under an anonymous id and is named later by alias or identify.
// Every call carries its number in the property "n". The last line printed is a JSON
// object: calls made, and every failure that the SDK reported.
import { PostHog } from 'posthog-node'
import { Analytics } from '@segment/analytics-node'

const [sdk, url, key, count] = [process.argv[2], process.argv[3], process.argv[4], Number(process.argv[5])]
const pause = Number(process.argv[6] ?? 0)
const rest = (ms) => new Promise((r) => setTimeout(r, ms))
const failures = []
const perUser = 10

// Ten calls a user: 4 anonymous, 1 that names them, 1 with traits, 4 as themselves.
function* history() {
  for (let n = 0; n < count; n++) {
    const u = Math.floor(n / perUser), step = n % perUser
    yield { n, step, user: `${sdk}-user-${u}`, anonymous: `${sdk}-anon-${u}` }
  }
}

async function posthog() {
  const client = new PostHog(key, { host: url, flushAt: 100, flushInterval: 200, fetchRetryCount: 10, fetchRetryDelay: 500, maxQueueSize: 100000 })
  client.on('error', (e) => failures.push(String(e)))
  for (const { n, step, user, anonymous } of history()) {
    const properties = { n, page: n % 7, big: 9007199254740993 }
    if (step < 4) client.capture({ distinctId: anonymous, event: 'viewed', properties })
    else if (step === 4) client.alias({ distinctId: user, alias: anonymous, properties: { n } })
    else if (step === 5) client.identify({ distinctId: user, properties: { $set: { plan: `plan-${n}` }, $set_once: { first: n }, n } })
    else client.capture({ distinctId: user, event: 'bought', properties })
    if (n % 100 === 99) await rest(pause)
    if (n % 500 === 499) await client.flush().catch((e) => failures.push(String(e)))
  }
  await client.shutdown(60_000)
}

async function segment() {
  const client = new Analytics({ writeKey: key, host: url, path: '/v1/batch', maxEventsInBatch: 50, flushInterval: 200 })
  client.on('error', (e) => failures.push(`${e.code} ${e.reason}`))
  let waiting = 0
  const sent = (err) => { waiting--; if (err) failures.push(String(err)) }
  for (const { n, step, user, anonymous } of history()) {
    waiting++
    const properties = { n, page: n % 7 }
    if (step < 4) client.track({ anonymousId: anonymous, event: 'viewed', properties }, sent)
    else if (step === 4) client.identify({ userId: user, anonymousId: anonymous, traits: { plan: `plan-${n}`, n } }, sent)
    else if (step === 5) client.alias({ userId: user, previousId: anonymous }, sent)
    else client.track({ userId: user, anonymousId: anonymous, event: 'bought', properties }, sent)
    if (n % 100 === 99) await rest(pause)
    while (waiting > 1000) await rest(5)
  }
  await client.closeAndFlush({ timeout: 120_000 })
  while (waiting > 0) await rest(5)
}

await (sdk === 'posthog' ? posthog() : segment())
// An SDK may still log what a request of its own came to, so the report waits for the end.
process.on('exit', () => console.log(JSON.stringify({ sdk, calls: count, failures })))
