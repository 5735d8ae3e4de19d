"""What a config knows to be no text to show, and how it is masked."""

from __future__ import annotations

import json
import tomllib

from pipeline.config.masking import mask

TABLE = 'type = "table"\nurl = "http://${oc.env:TEST_USER}@host/${oc.env:TEST_UNSET,train}"\n'


def hidden_of(load_config, valid, *sets: str):
    return load_config(valid.replace('type = "digits"\n', TABLE, 1), *sets).hidden


def test_environment_text_is_hidden_and_its_default_is_not(load_config, valid, monkeypatch) -> None:
    monkeypatch.setenv("TEST_USER", "t0psecret")
    assert hidden_of(load_config, valid) == {"t0psecret": "${oc.env:TEST_USER}"}


def test_short_texts_numbers_and_choices_are_not_hidden(load_config, valid, monkeypatch) -> None:
    monkeypatch.setenv("TEST_USER", "abc")
    monkeypatch.setenv("TEST_ROWS", "10000")
    monkeypatch.setenv("TEST_CHOICE", "step")
    sets = ("dataset.train.rows=${oc.env:TEST_ROWS}", "scheduler.type='warmup_cosine'")
    assert (
        hidden_of(load_config, valid, *sets, "scheduler.interval=${oc.env:TEST_CHOICE}")
        == {
            # the scheduler's interval is a text that config.toml has as it was resolved
        }
    )


def test_decoded_environment_text_and_secrets_are_hidden(load_config, valid, monkeypatch) -> None:
    monkeypatch.setenv("TEST_USER", "user")
    monkeypatch.setenv("TEST_COLUMNS", "[first, second]")
    columns = "dataset.train.columns=${oc.decode:${oc.env:TEST_COLUMNS}}"
    found = hidden_of(load_config, valid, columns, "hooks.uploader.token='s3cret'")
    assert found == {
        "user": "${oc.env:TEST_USER}",
        "first": "${oc.env:TEST_COLUMNS}",
        "second": "${oc.env:TEST_COLUMNS}",
        "s3cret": "***",
    }


def test_a_secret_that_a_file_sets_by_an_edit_is_hidden(load_config, valid) -> None:
    head = 'set = ["hooks.uploader.token=first-s3cret"]\n'
    found = load_config(head + valid, "hooks.uploader.token='s3cret'").hidden
    assert found == {"first-s3cret": "***", "s3cret": "***"}


def test_a_text_of_toml_in_a_text_of_toml_is_masked() -> None:
    secret = 'pl"an\\ted\u00ef'
    value = json.dumps(secret, ensure_ascii=False)
    line = f"set = [{json.dumps(f'hooks.uploader.token={value}', ensure_ascii=False)}]"
    assert tomllib.loads(tomllib.loads(line)["set"][0].partition(".")[2])["uploader"]["token"] == secret
    assert mask(line, {secret: "***"}) == 'set = ["hooks.uploader.token=\\"***\\""]'


def test_masks_the_longest_text_first_and_what_repr_makes_of_it() -> None:
    hidden = {"pass": "***", "password\n1": "${oc.env:P}"}
    assert mask("a pass, 'password\\n1', password\n1.", hidden) == "a ***, '${oc.env:P}', ${oc.env:P}."
