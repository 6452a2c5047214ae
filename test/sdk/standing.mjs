// What renews itself stands still where somebody points or is, says so, and does nothing where nobody
// looks. Time is that of the test, and what the instance answers is changed on its way to the page.
export async function standing({ context, login, failures, base }) {
  const c = await context({ viewport: { width: 1280, height: 900 } })
  const page = await login(c)
  const is = (what, ok) => ok || failures.push(`what renews itself: ${what}`)
  const sees = (selector, what) => page.waitForSelector(selector, { timeout: 10_000, state: 'attached' }).catch(() => is(what, false))
  await page.clock.install()
  await parts(c, page, is, sees, base)
  await hidden(c, page, is, sees, base)
  await c.close()
}

async function parts(c, page, is, sees, base) {
  let edit = (html) => html
  await page.route(base, async (route) => {
    if (route.request().resourceType() !== 'fetch') return route.continue()
    const response = await route.fetch()
    await route.fulfill({ response, body: edit(await response.text()) })
  })
  await page.goto(base)
  // renewed is a page that was read again, with this at the beginning of a list of one of its parts.
  const renewed = async (part, text, more = (html) => html) => {
    edit = (html) => more(html.replace(new RegExp(`(data-part="${part}"[^]*?<ul class="list">)`), `$1<li><span></span><div><p><a href="/console/dead/delivery/999">${text}</a></p></div></li>`))
    const read = page.waitForResponse((r) => r.url() === base && r.request().resourceType() === 'fetch')
    await page.clock.runFor(31_000)
    await read
  }
  const address = (part) => page.locator(`[data-part=${part}] li a`).first().getAttribute('href')
  const away = () => page.mouse.move(2, 2)

  const had = await address('dead')
  await page.locator('[data-part=dead] li a').first().hover()
  await renewed('dead', 'a new letter')
  await sees('#newer:has-text("Newest dead letters: 1 newer. Shown when the pointer and the focus are elsewhere.")', 'a part under the pointer does not say that it is newer')
  is('a row under the pointer became another', await address('dead') === had)
  await away()
  await sees('[data-part=dead] li a:has-text("a new letter")', 'a part is not renewed when the pointer leaves it')
  is('it says that there is newer, and shows it', !await page.isVisible('#newer'))

  await page.locator('[data-part=dead] li a').nth(1).hover()
  const place = await page.locator('[data-part=dead] li').nth(1).boundingBox()
  await renewed('dead', 'its name is another', (html) => html.replace(/(data-part="books"[^]*?data-label="Accepted">)[^<]*/, '$1987,654'))
  await sees('[data-part=dead] li a:has-text("its name is another")', 'a part with the same rows is not renewed under the pointer')
  await sees('[data-part=books] :text("987,654")', 'figures are not renewed')
  is('a row under the pointer moved', (await page.locator('[data-part=dead] li').nth(1).boundingBox()).y === place.y)

  await page.locator('[data-part=pipelines] tbody tr').first().hover()
  const row = await page.locator('[data-part=pipelines] tbody tr').first().boundingBox()
  await renewed('dead', 'one', (html) => html.replace('data-part="attention-list">', '$&<section class="sheet"><div class="in"><p>Much</p><p>is</p><p>new</p></div></section>'))
  await sees('#newer:has-text("newer figures")', 'a part that would move the row under the pointer does not say that it is newer')
  is('a part above the row under the pointer moved it', (await page.locator('[data-part=pipelines] tbody tr').first().boundingBox()).y === row.y)
  await away()
  await sees('[data-part=attention-list] p:has-text("Much")', 'a part above is not renewed when the pointer leaves')

  await page.locator('[data-part=dead] li a').first().focus()
  await renewed('attention-list', 'nothing', (html) => html.replace(/(data-part="dead"[^]*?<ul class="list">)<li>[^]*?<\/li>/, '$1').replaceAll('Much', ''))
  await sees('#newer:has-text("Newest dead letters: newer figures")', 'a part with the focus does not say that it is newer')
  is('the focus is lost', await page.evaluate(() => document.activeElement.closest('[data-part=dead]') !== null))
  await page.locator('#q').focus()
  await sees('#newer.hidden', 'a part is not renewed when the focus leaves it')

  // A screen reader hears of what failed, once, and nothing of what is merely renewed.
  const said = () => page.evaluate(() => window.said)
  await page.evaluate(() => {
    window.said = []
    new MutationObserver(() => window.said.push(document.querySelector('#said').textContent)).observe(document.querySelector('#said'), { childList: true, characterData: true, subtree: true })
  })
  const fails = (html) => html.replace(/(data-part="dead"[^>]*>)/, '$1<p data-say>It could not be read.</p>')
  for (const text of ['once', 'twice', 'thrice']) {
    await renewed('dead', text, fails)
    await sees(`[data-part=dead] a:has-text("${text}")`, 'a part is not renewed')
  }
  is(`what failed is said as ${JSON.stringify(await said())}`, (await said()).filter((text) => text.includes('It could not be read.')).length === 1)
  is('a part that is renewed speaks by itself', await page.locator('[data-part] [role=alert], [data-part] [role=status], #newer[role]').count() === 0)
}

// An id of a list is copied whole, and a link with where the instance is, also where the browser gives no clipboard to a page
// without https.
export async function copying({ context, login, failures, base }) {
  for (const secure of [true, false]) {
    const c = await context({ viewport: { width: 1280, height: 900 }, permissions: ['clipboard-read', 'clipboard-write'] })
    const page = await login(c)
    for (const [at, what, from, of] of [['dead?since=24h', '[data-list] tbody button.copy', 'data-text', ''], ['', '[data-part=dead] .list button.copy', 'data-text', ''], ['dead?since=24h', '.foot [data-link]', 'data-link', new URL(base).origin]]) {
      await page.goto(base + at)
      await page.evaluate((secure) => {
        if (!secure) navigator.clipboard.writeText = () => Promise.reject(new Error('not over http'))
      }, secure)
      const button = page.locator(what).first()
      await button.click()
      await page.waitForSelector('.toast:has-text("Copied.")', { timeout: 10_000 }).catch(() => failures.push(`${at} does not say that something was copied`))
      const [has, wants] = await Promise.all([page.evaluate(() => navigator.clipboard.readText()), button.getAttribute(from)])
      if (!wants || has !== of + wants) failures.push(`${at}: ${of}${wants} is copied as ${has}`)
    }
    await c.close()
  }
}

// A page whose session has ended says so, and of when its figures are.
export async function loggedOut({ context, login, failures, base }) {
  const c = await context({ viewport: { width: 1280, height: 800 } })
  const page = await login(c)
  await page.goto(base + 'operations')
  await c.clearCookies()
  await page.waitForSelector('#stopped:has-text("You are logged out: all is of ")', { timeout: 30_000 }).catch(() => failures.push('a page does not say that its session has ended'))
  await c.close()
}

// A tab that nobody looks at lets go of the stream after 30 seconds, and does not take it again.
async function hidden(c, page, is, sees, base) {
  const open = new Set()
  let opened = 0
  c.on('request', (r) => r.url().includes('/api/v1/stream') && (opened++, open.add(r)))
  for (const over of ['requestfinished', 'requestfailed']) c.on(over, (r) => open.delete(r))
  const until = async (ok) => { for (let n = 0; !ok() && n < 100; n++) await page.evaluate(() => fetch('/console/assets/none')) }
  const look = (at) => page.evaluate((at) => {
    Object.defineProperty(document, 'hidden', { get: () => !at, configurable: true })
    document.dispatchEvent(new Event('visibilitychange'))
  }, at)
  await page.goto(base + 'queues/s2s.demo')
  await until(() => open.size === 1)
  await look(false)
  await page.clock.runFor(29_000)
  is(`a tab that was hidden for 29 s has ${open.size} streams`, open.size === 1)
  await page.clock.runFor(2_000)
  await until(() => open.size === 0)
  is('a tab that was hidden for 31 s has the stream', open.size === 0)
  for (let n = 0; n < 6; n++) await page.clock.runFor(10_000)
  await page.evaluate(() => fetch('/console/assets/none'))
  is(`a hidden tab opened the stream ${opened - 1} times more`, opened === 1)
  await look(true)
  await until(() => open.size === 1)
  is('a tab that is looked at again does not listen', open.size === 1)
}
