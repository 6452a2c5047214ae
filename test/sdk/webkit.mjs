// Looks at the console in WebKit, the engine of Safari: node webkit.mjs MINIBROWSER ADDRESS TOKEN EVENT OTHER
// It looks at every page on a phone in the dark and on a desk in the light, hears of a change by the
// stream, asks for one in a dialog, and mends the dead letter of the event by keys alone. Without script it
// looks at every page on a phone, pauses a queue, and mends the other dead letter by forms.
import { look, pages } from './looking.mjs'
import { mending } from './mending.mjs'
import { watched } from './watched.mjs'
import { screen, webkit } from './webdriver.mjs'

const [browser, instance, token, event, other] = process.argv.slice(2)
const failures = []
const by = await watched(instance)
const base = by.address + '/console/'
const on = await screen()
const desk = { width: 1280, height: 900 }, phone = { width: 320, height: 900 }

const opened = (what, dark, use, script = true) => webkit({ browser, on, dark, script, use }).catch((e) => failures.push(`${what}: ${e}`))

// right makes failures of what went wrong in a page.
async function right(page, where) {
  const wrong = await page.evaluate(() => window.wrong ?? ['it is not watched'])
  for (const one of wrong) failures.push(`${where}: ${one}`)
}

async function login(page) {
  await page.goto(base + 'dead')
  await page.evaluate(() => document.querySelector('#token').focus())
  await page.keyboard.type(token)
  await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')])
}

const is = (what, ok) => ok || failures.push(what)

// looked looks at every page.
const looked = (dark, viewport) => opened(`pages, ${dark ? 'dark' : 'light'}`, dark, async (page) => {
  await page.setViewport(viewport)
  await login(page)
  is(`the theme is not ${dark ? 'dark' : 'light'}`, await page.evaluate(() => matchMedia('(prefers-color-scheme: dark)').matches) === dark)
  for (const at of ['login', ...pages]) {
    const where = `${at || 'overview'} in WebKit at ${viewport.width} px, ${dark ? 'dark' : 'light'}`
    await page.goto(base + at)
    await look(page, where, failures, true)
    await right(page, where)
  }
})

// plain looks at every page without script.
async function plain(page) {
  await page.setViewport(phone)
  await login(page)
  for (const at of ['login', ...pages]) {
    const where = `${at || 'overview'} in WebKit at ${phone.width} px, without script`
    await page.goto(base + at)
    is(`${where}: it runs a script`, await page.evaluate(() => !document.documentElement.classList.contains('js') && window.wrong === undefined && document.scripts.length === 0))
    await look(page, where, failures, true)
  }
}

// byForms pauses a queue and mends the other dead letter without script.
async function byForms(page) {
  const says = async (text, what) => is(`${what} without script: ${page.url()} does not say “${text}”`, await page.evaluate((text) => document.body.textContent.includes(text), text))
  const follow = async (selector) => {
    await page.evaluate((selector) => document.querySelector(selector).scrollIntoView({ block: 'center' }), selector) // not under the bar
    await Promise.all([page.waitForNavigation(), page.click(selector)])
  }
  await page.setViewport(phone)
  await login(page)
  await page.goto(base + 'queues/crm-events')
  await follow('main a[href$="/pause"]')
  await follow('main .ask button')
  await says('It is paused: jobs come in', 'a pause')
  await follow('main a[href$="/resume"]')
  await follow('main .ask button')
  await says('Resumed.', 'going on')
  await page.goto(`${base}find?q=${other}`)
  await follow('main a[href*="/dead/delivery/"]')
  await follow('main .head a[href$="/edit"]')
  await page.evaluate(() => { const at = document.querySelector('textarea'); at.value = at.value.replace('"XXX"', '"EUR"') })
  await follow('main .ask .acts button')
  await says('What was changed', 'an edit')
  await follow('main .head a[href*="/dead/replay"]')
  await says('Replay 1 dead letter', 'a preview')
  await follow('main .ask .acts button')
  await says('Replay of dead letters', 'a replay')
}

// Jobs are handed out or not, as another client says and as a dialog asks.
async function used(page) {
  await page.setViewport(desk)
  await login(page)
  await page.goto(base + 'queues/s2s.demo')
  await page.waitForSelector('[data-part=state]')
  const steer = (verb) => fetch(`${instance}/api/v1/queues/s2s.demo/${verb}`, { method: 'POST', headers: { Authorization: 'Bearer ' + token } })
  for (let n = 0; by.streams() === 0 && n < 100; n++) await page.evaluate(() => fetch('/console/assets/none').then(() => 0))
  is(`a page has ${by.streams()} streams open`, by.streams() === 1)
  const begun = Date.now()
  await steer('pause')
  await page.waitForSelector('[data-part=state] .warn, [data-part=state] .bad')
  is(`a change is shown after ${Date.now() - begun} ms`, Date.now() - begun < 5000)
  await steer('resume')
  await page.goto(base + 'queues/s2s.demo')
  for (const [asks, does] of [['/pause', 'Pause the queue'], ['/resume', 'Resume the queue']]) {
    await page.evaluate((asks) => document.querySelector(`main a[href$="${asks}"]`).addEventListener('mousedown', (e) => e.preventDefault()), asks) // on a Mac a click gives a link no focus
    await page.click(`main a[data-asks][href$="${asks}"]`)
    await page.waitForSelector('dialog[open]')
    is('a dialog does not begin at Cancel', await page.evaluate(() => document.activeElement.textContent) === 'Cancel')
    await page.keyboard.press('Escape')
    is('a dialog does not give back the focus', await page.evaluate((asks) => document.activeElement.matches(`a[href$="${asks}"]`), asks))
    await page.keyboard.press('Enter')
    await page.waitForSelector('dialog[open]')
    await page.evaluate((does) => [...document.querySelectorAll('dialog button')].find((b) => b.textContent.trim() === does).focus(), does)
    await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')])
    await right(page, does)
  }
  await page.evaluate(() => document.activeElement.blur())
  await page.keyboard.down('Control')
  await page.keyboard.press('k')
  await page.keyboard.up('Control')
  is('the keys Ctrl K do not go to the box', await page.evaluate(() => document.activeElement.id) === 'q')
  await page.goto(base)
  await page.keyboard.press('g')
  await Promise.all([page.waitForNavigation(), page.keyboard.press('q')])
  is(`the keys g q go to ${page.url()}`, page.url() === base + 'queues')
  await right(page, 'keys')
}

await Promise.all([
  looked(true, phone), looked(false, desk), opened('without script', false, plain, false),
  opened('a change', false, used)
    .then(() => opened('from an id to the event by keys', false, async (page) => {
      await page.setViewport(desk)
      await mending(page, { base, token, event, failures })
      await right(page, 'from an id to the event')
    }))
    .then(() => opened('by forms', false, byForms, false)),
])
on.end()
by.end()
console.log(JSON.stringify({ failures: failures.length ? [[...new Set(failures)].join('\n')] : [] }))
process.exit(0)
