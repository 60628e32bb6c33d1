"""The page of a report, as a template of jinja2 that escapes everything but drawings."""

PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{{ title }}</title>
<style>
:root { color-scheme: light dark; --line: #8884; --soft: #888; --card: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
.about, footer, .note, caption { color: var(--soft); } footer { margin-top: 3rem; font-size: .85rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-size: .9rem; }
caption { text-align: left; padding-bottom: .3rem; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: anywhere; max-width: 34rem; white-space: pre-wrap; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
dl { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.2rem 0; }
dl div { background: var(--card); border-radius: .5rem; padding: .6rem 1rem; }
dt { color: var(--soft); font-size: .85rem; } dd { margin: 0; font-size: 1.3rem; }
figure { margin: 1.4rem 0; } figcaption { font-weight: 600; margin-bottom: .3rem; }
figure svg { background: #fff; border-radius: .4rem; width: 100%; height: auto; }
</style>
</head>
<body>
<h1>{{ title }}</h1>
{% if about %}<p class="about">{{ about }}</p>{% endif %}
{% for part in parts %}
{% if part.kind == "heading" %}<h2>{{ part.text }}</h2>
{% elif part.kind == "text" %}<p>{{ part.text }}</p>
{% elif part.kind == "figures" %}<dl>
{% for name in part.columns %}<div><dt>{{ name }}</dt><dd>{{ part.rows[0][loop.index0].text }}</dd></div>
{% endfor %}</dl>
{% elif part.kind == "table" %}<div class="wide"><table>
{% if part.text %}<caption>{{ part.text }}</caption>{% endif %}
<thead><tr>{% for name in part.columns -%}
<th{% if part.rows and part.rows[0][loop.index0].number %} class="n"{% endif %}>{{ name }}</th>
{%- endfor %}</tr></thead>
<tbody>
{% for row in part.rows %}<tr>{% for one in row -%}
<td{% if one.number %} class="n"{% endif %}>{{ one.text }}</td>
{%- endfor %}</tr>
{% endfor %}</tbody></table></div>
{% if part.note %}<p class="note">{{ part.note }}</p>{% endif %}
{% elif part.kind == "chart" %}<figure role="group" aria-label="{{ part.text }}">
<figcaption>{{ part.text }}</figcaption>
{{ drawing(part) }}
{% if part.note %}<p class="note">{{ part.note }}</p>{% endif %}
</figure>
{% endif %}
{% endfor %}
<footer>{{ made_at }} UTC · OrbitMQ {{ version }}</footer>
</body>
</html>
"""
