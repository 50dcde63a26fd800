"""Tags of tables that older plugins made: the real plugin reads what tag-write wrote of them."""

from __future__ import annotations

from tests.integration.journals.test_older_journals import make_old, use_partition
from tests.integration.pekko_journals import write_as_pekko
from tests.interop.client import event
from tests.interop.conftest import SceneMaker
from tests.interop.support import complete


def test_readers_get_the_tags_of_every_age(make_scene: SceneMaker) -> None:
    """Of 1 and 2 they are in rows alone, as the migration left them; of 3 and 4 in `tag1`."""
    scene = make_scene()
    events = [event(f"e-{number}", "red") for number in range(1, 7)]
    scene.open_untagged().persist("old", [events])
    scene.close()
    scene.move_back()
    journal = scene.journal
    messages = sorted(journal.rows("messages"), key=lambda row: row["sequence_nr"])
    make_old(journal)
    write_as_pekko(journal, messages[:2])
    journal.insert("messages", [{**row, "tags": set()} for row in messages[:2]])
    journal.insert("messages", [{**row, "tags": None, "tag1": "red"} for row in messages[2:4]])
    journal.insert("messages", messages[4:])
    use_partition(journal, "old", 0)
    use_partition(journal, "gone", 0)

    scene.tag_write()
    reader = scene.open()
    delivered = complete(reader.current("red"))
    assert [row.payload for row in delivered] == [f"e-{number}" for number in range(1, 7)]
    rows = sorted(journal.rows("tag_views"), key=lambda row: row["sequence_nr"])
    assert [row["tag_pid_sequence_nr"] for row in rows] == list(range(1, 7))
    assert reader.recover("old") == 6
