// Looks at the console in a real browser: node console.mjs CHROMIUM ADDRESS TOKEN EVENT OTHER FOLDER ISSUER PARTNER
// It logs in with the token, looks at every page at two widths, in both themes, with and without
// script, and mends the dead letter of the event: finds it, edits it, replays it; that of the other
// event by keys alone. Then it logs in at
// the provider corp, whose issuer is at ISSUER, and describes a partner that is at PARTNER by forms. FOLDER takes screenshots for the documents; empty:
// none are made.
import { chromium } from 'playwright-core'
import { describing } from './describing.mjs'
import { look, pages, watch } from './looking.mjs'
import { mending } from './mending.mjs'
import { copying, loggedOut, standing } from './standing.mjs'

const [executablePath, address, token, event, other, folder, issuer, partner] = process.argv.slice(2)
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] })
const failures = []
const base = address + '/console/'

// context is a browser that nobody has logged in with yet.
async function context(options) {
  const c = await browser.newContext({ locale: 'en-GB', ...options })
  c.on('page', (page) => watch(page, failures, [address, issuer]))
  return c
}

async function login(c) {
  const page = await c.newPage()
  await page.goto(base + 'dead')
  await page.fill('#token', token)
  await page.click('button:has-text("token")')
  await page.waitForSelector('#q')
  return page
}

const seen = async (page, text, what) => { if (!(await page.textContent('body')).includes(text)) failures.push(`${what}: ${page.url()} does not say “${text}”`) }

for (const colorScheme of ['light', 'dark']) {
  for (const width of [1280, 320]) {
    for (const javaScriptEnabled of [true, false]) {
      const c = await context({ colorScheme, javaScriptEnabled, viewport: { width, height: 900 } })
      const page = await login(c)
      for (const at of ['login', ...pages]) {
        const where = `${at || 'overview'} at ${width} px, ${colorScheme}, script ${javaScriptEnabled ? 'on' : 'off'}`
        await page.goto(base + at)
        await look(page, where, failures, javaScriptEnabled)
      }
      await c.close()
    }
  }
}

// Without script: every change is a page with a form.
{
  const c = await context({ javaScriptEnabled: false, viewport: { width: 320, height: 700 } })
  const page = await login(c)
  await page.goto(base + 'queues/s2s.demo')
  await page.click('main a:has-text("Pause")')
  await page.click('button:has-text("Pause the queue")')
  await seen(page, 'It is paused: jobs come in', 'pause without script')
  await page.click('main a:has-text("Resume")')
  await page.click('button:has-text("Resume the queue")')
  await seen(page, 'Resumed.', 'resume without script')
  await c.close()
}

// Ten tabs share one stream, which shows a change sooner than the next reading would.
{
  const c = await context({ viewport: { width: 1280, height: 800 } })
  const streams = new Set()
  c.on('request', (r) => r.url().includes('/api/v1/stream') && streams.add(r))
  for (const over of ['requestfinished', 'requestfailed']) c.on(over, (r) => streams.delete(r))
  const first = await login(c)
  const tabs = [first, ...await Promise.all(Array.from({ length: 9 }, () => c.newPage()))]
  await Promise.all(tabs.map((tab) => tab.goto(base + 'queues/s2s.demo')))
  for (let n = 0; streams.size === 0 && n < 50; n++) await first.waitForTimeout(100)
  const steer = (verb) => fetch(`${address}/api/v1/queues/s2s.demo/${verb}`, { method: 'POST', headers: { Authorization: 'Bearer ' + token } })
  await steer('pause')
  const sees = tabs.map((tab, n) => tab.waitForSelector('[data-part=state]:has-text("paused")', { timeout: 5000 }).catch(() => failures.push(`tab ${n} does not show a change within 5 seconds`)))
  await Promise.all(sees)
  if (streams.size !== 1) failures.push(`ten tabs have ${streams.size} streams open`)
  await steer('resume')
  await c.close()
}

// Rows of a list stand still: it says how many are newer, and shows them on demand. What is stopped stays.
{
  const c = await context({ viewport: { width: 1280, height: 800 } })
  const page = await login(c)
  const send = async (id) => {
    const r = await fetch(`${address}/api/v1/crm/events`, { method: 'POST', headers: { Authorization: 'Bearer ' + token, 'Content-Type': 'application/json' }, body: JSON.stringify({ id, type: 'member.created', tenantId: 'shop', identity: { email: 'ann@example.com' }, occurredAt: new Date().toISOString() }) })
    if (!r.ok) failures.push(`an event is answered ${r.status}`)
  }
  await page.goto(base + 'crm')
  const rows = () => page.locator('[data-list] tbody tr').allTextContents()
  const had = await rows()
  await send('second')
  await page.waitForSelector('#newer:has-text("1 newer: show them")', { timeout: 30_000 }).catch(() => failures.push('a list does not say that one is newer'))
  if ((await rows()).length !== had.length) failures.push('the rows of a list move by themselves')
  await page.click('#newer a').catch(() => {})
  if ((await rows()).length !== had.length + 1) failures.push('what is newer is not shown on demand')
  await page.keyboard.press('.')
  await seen(page, 'Updates are stopped: all is of ', 'stopped')
  await send('third')
  await page.waitForTimeout(15_000) // longer than between two readings
  if (await page.isVisible('#newer')) failures.push('a page that is stopped goes on')
  await page.click('#stop')
  await page.waitForSelector('#newer:has-text("1 newer: show them")', { timeout: 30_000 }).catch(() => failures.push('a page that was stopped does not go on'))
  await c.close()
}

// By keys.
{
  const c = await context({ viewport: { width: 1280, height: 800 } })
  const page = await login(c)
  await page.keyboard.press('/')
  if (await page.evaluate(() => document.activeElement.id) !== 'q') failures.push('the key / does not go to the box')
  await page.keyboard.press('Tab')
  await page.keyboard.press('g')
  await Promise.all([page.waitForURL(base + 'queues'), page.keyboard.press('q')])
  await page.keyboard.press('j')
  await Promise.all([page.waitForURL(/queues\/./), page.keyboard.press('Enter')])
  await c.close()
}

// From an id to the event that arrives.
async function mend() {
  const shot = async (page, name) => folder && page.screenshot({ path: `${folder}/${name}.png` })
  const c = await context({ viewport: { width: 1100, height: 680 } })
  const page = await login(c)
  await page.goto(base)
  await shot(page, 'overview')
  await page.fill('#q', event)
  await page.press('#q', 'Enter')
  await page.waitForSelector('a[href*="/console/dead/delivery/"], h1:has-text("Dead letter")')
  if (!page.url().includes('/dead/delivery/')) await page.click('a[href*="/console/dead/delivery/"]')
  await seen(page, '422', 'why it failed')
  await page.click('a:has-text("Edit payload")')
  const payload = page.locator('textarea')
  await payload.fill((await payload.inputValue()).replace('"XXX"', '"EUR"'))
  await page.click('button:has-text("Replace the payload")')
  await page.waitForSelector('h2:has-text("What was changed")')
  await page.evaluate(() => window.scrollTo(0, 0))
  await shot(page, 'mended')
  await page.click('main a:has-text("Replay")')
  await page.waitForSelector('dialog[open]')
  if (await page.evaluate(() => document.activeElement.textContent) !== 'Cancel') failures.push('a dialog does not begin at Cancel')
  await shot(page, 'replay')
  await page.keyboard.press('Escape')
  if (await page.evaluate(() => document.activeElement.textContent) !== 'Replay') failures.push('a dialog does not give back the focus')
  await page.click('main a:has-text("Replay")')
  await page.click('dialog button:has-text("Replay 1 dead letter")')
  await page.waitForSelector('p.good:has-text("The operation is asked for.")')
  await seen(page, 'Replay of dead letters', 'the replay')
  await c.close()
}
// Pages that show what happens: what becomes of events now, the bridge, windows with their records.
async function tour() {
  const c = await context({ viewport: { width: 1100, height: 680 } })
  const page = await login(c)
  const post = (path, body) => fetch(`${address}/api/v1/${path}`, { method: 'POST', headers: { Authorization: 'Bearer ' + token, 'Content-Type': 'application/x-ndjson' }, body })
  await page.goto(base + 'live')
  for (let n = 0; n < 8; n++) {
    await post('bridge/entries', `{"text":"link ${n} is up"}`)
    await post('events?project=shop', JSON.stringify({ event: 'viewed', distinct_id: 'ann' }))
    await page.waitForTimeout(300)
  }
  await page.waitForSelector('main tbody tr:has-text("analytics")', { timeout: 30_000 })
  await post('windows/records?batch=20260301140000&kind=event', '{"globalEventId": 1, "day": 20260301, "eventCode": "141", "actor1Name": "BERLIN"}')
  for (const at of ['live', 'bridge', 'windows']) {
    await page.goto(base + at)
    if (folder) await page.screenshot({ path: `${folder}/${at}.png` })
  }
  await c.close()
}
await copying({ context, login, failures, base }).catch((e) => failures.push(`ids of lists: ${e}`))
await loggedOut({ context, login, failures, base }).catch((e) => failures.push(`a session that has ended: ${e}`))
await standing({ context, login, failures, base }).catch((e) => failures.push(`what renews itself: ${e}`))
// A partner is described by forms: without script on a phone, with it on a desk.
const tools = { context, login, seen, failures, base, address, token, partner, shot: folder ? async (page, name) => name === 'checked' && page.screenshot({ path: `${folder}/describing.png` }) : null }
await describing({ ...tools, shot: null }, 'ads-1', false, { width: 320, height: 700 }).catch((e) => failures.push(`a description without script: ${e}`))
await describing({ ...tools, shot: null }, 'ads-2', true, { width: 320, height: 700 }, 'dark').catch((e) => failures.push(`a description on a phone: ${e}`))
await describing(tools, 'ads-3', true, { width: 1100, height: 680 }).catch((e) => failures.push(`a description: ${e}`))
await tour().catch((e) => failures.push(`a tour: ${e}`))
await mend().catch((e) => failures.push(`from an id to the event: ${e}`))
await context({ viewport: { width: 1280, height: 800 } })
  .then(async (c) => mending(await c.newPage(), { base, token, event: other, failures }))
  .catch((e) => failures.push(`from an id to the event by keys: ${e}`))
// In and out at a provider of another site, with a page that was asked for before.
async function corp() {
  for (const javaScriptEnabled of [true, false]) {
    const c = await context({ javaScriptEnabled })
    const page = await c.newPage()
    await page.goto(base + 'queues?sort=name')
    await page.click('a:has-text("Log in at corp")')
    await page.waitForURL(base + 'queues?sort=name')
    await seen(page, 'corp:ada@example.com', 'a login at a provider')
    await page.goto(base + 'me')
    await page.click('button:has-text("Log out")')
    await page.click('a:has-text("Log out at corp too")')
    await page.waitForURL(base + 'login')
    await page.goto(base + 'queues')
    await seen(page, 'Log in at corp', 'after the logout')
    await c.close()
  }
}
await corp().catch((e) => failures.push(`a login at a provider: ${e}`))
await browser.close()
console.log(JSON.stringify({ failures: [...new Set(failures)].length ? [[...new Set(failures)].join("\n")] : [] }))
process.exit(0)
