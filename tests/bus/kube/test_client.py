"""The adapter to the cluster, as far as no server is needed: where a cluster is found, and what is
no credential.
"""

import asyncio
import threading

import pytest
from aiohttp import web

from bus.errors import ClusterUnavailableError, MalformedJsonError, PermissionDeniedError
from bus.kube.client import LONGEST_LINE, Access, answers, connect, discover
from bus.kube.watch import records
from bus.kube.watch.contract import GoneError
from tests.bus.kube.apiserver import PATH, Server
from tests.bus.kube.watch.odd_bytes import ODD, in_unread_fields


def test_a_given_kubeconfig_goes_first_even_where_it_is_not_there(tmp_path):
    (tmp_path / "config").write_text("")
    environ = {"KUBECONFIG": str(tmp_path / "config")}

    assert discover(environ, "/elsewhere", "east") == Access("/elsewhere", "east")


def test_the_files_of_the_environment_come_before_the_home(tmp_path):
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text("")
    (tmp_path / "one").write_text("")
    listed = f"/nowhere:{tmp_path / 'one'}"

    assert discover({"KUBECONFIG": listed, "HOME": str(tmp_path)}) == Access(listed)
    assert discover({"HOME": str(tmp_path)}) == Access(str(tmp_path / ".kube" / "config"))


@pytest.mark.parametrize(
    "environ", [{}, {"KUBECONFIG": "/nowhere"}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}]
)
def test_without_kubeconfig_and_service_account_there_is_no_cluster(tmp_path, environ):
    assert discover({"HOME": str(tmp_path), **environ}) is None


@pytest.mark.parametrize("text", ["", "{}", "contexts: 7", "%", "a: &a [*a]"])
async def test_a_kubeconfig_that_is_none_is_said_to_be_none(tmp_path, text):
    (tmp_path / "config").write_text(text)

    with pytest.raises(PermissionDeniedError, match="credentials"):
        await connect(Access(str(tmp_path / "config")))


@pytest.fixture
async def server(tmp_path):
    async with Server(tmp_path) as running:
        yield running


async def test_a_page_has_raw_items_and_what_follows(server):
    body = b'{"metadata":{"resourceVersion":"7","continue":"c","remainingItemCount":3},"items":[{"a" : 1}]}'
    server.answers = [web.Response(body=body)]
    page = await server.cluster.page(PATH, limit=2, following="b")

    assert (page.items, page.version, page.following, page.remaining) == (
        [b'{"a" : 1}'],
        "7",
        "c",
        3,
    )
    assert server.asked == [("Bearer first", {"limit": "2", "continue": "b"})]


async def test_metadata_is_asked_for_alone_and_objects_where_the_server_cannot(server):
    body = b'{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{}}]}'
    server.answers = [web.Response(body=body), web.Response(body=body)]
    page = await server.cluster.page(PATH, limit=2, metadata_only=True)
    await server.cluster.page(PATH, limit=2)

    assert page.items == [b'{"metadata":{}}']
    wanted = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    assert server.accepted == [wanted, "application/json"]


async def test_lines_are_put_together_and_a_cut_one_is_left_out(server):
    server.answers = [[b'{"a"', b':1}\n{"b":2}\n{"c"', b":3}\n{"]]
    lines = [line async for chunk in server.cluster.watch(PATH, version="7") for line in chunk]

    assert lines == [b'{"a":1}', b'{"b":2}', b'{"c":3}']
    assert server.asked[0][1] == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "7",
    }


async def test_an_endless_line_is_cut_and_the_next_one_is_whole(server):
    server.answers = [[b"x" * 1_000_000] * 9 + [b"\n{}\n"]]
    lines = [line async for chunk in server.cluster.watch(PATH, version="7") for line in chunk]

    assert lines[1] == b"{}"
    assert len(lines[0]) <= LONGEST_LINE + 1_000_000


@pytest.mark.parametrize(
    ("response", "error"),
    [
        ({"status": 410}, GoneError),
        ({"status": 400}, GoneError),
        ({"status": 504, "text": "Too large resource version: 9, current: 5"}, GoneError),
        ({"status": 403}, PermissionDeniedError),
        ({"status": 429, "headers": {"Retry-After": "7"}}, ClusterUnavailableError),
        ({"status": 500}, ClusterUnavailableError),
    ],
)
async def test_a_status_has_its_own_error(server, response, error):
    server.answers = [web.Response(**response)]

    with pytest.raises(error) as caught:
        await anext(server.cluster.watch(PATH, version="7"))

    if response["status"] == 429:
        assert caught.value.delay_seconds == 7.0


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("File descriptor 9 is used by transport <TCPTransport closed=False>", ClusterUnavailableError),
        ("unable to perform operation on <TCPTransport closed=True>; the handler is closed", ClusterUnavailableError),
        ("a fault of ours", RuntimeError),
    ],
    ids=["taken", "closed", "another"],
)  # fmt: skip
async def test_a_connection_that_the_loop_has_lost_may_be_tried_again(
    server, monkeypatch, said, error
):
    async def lost(*_):
        raise RuntimeError(said)

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", lost)
    with pytest.raises(error):
        await server.cluster.get(PATH)


async def test_a_path_may_say_which_objects_are_followed(server):
    server.answers = [web.Response(body=b'{"metadata":{}}')]
    await server.cluster.page(f"{PATH}?labelSelector=example.org/job", limit=5)

    ((_, query),) = server.asked
    assert query == {"labelSelector": "example.org/job", "limit": "5"}


async def test_a_renewed_token_is_read_after_a_refusal(server):
    server.answers = [web.Response(status=401), web.Response(body=b'{"metadata":{}}')]
    server.use_token("second")
    await server.cluster.page(PATH, limit=0)

    assert server.asked == [("Bearer first", {}), ("Bearer second", {})]


async def test_a_refusal_that_stays_is_a_missing_permission(server):
    server.answers = [web.Response(status=401), web.Response(status=401)]

    with pytest.raises(PermissionDeniedError) as caught:
        await server.cluster.page(PATH, limit=0)

    assert caught.value.permission == "list pods"


@pytest.mark.parametrize("body", [b"", b"[]", b'{"metadata":{}', b'{"items":[]}', b"<html>"])
async def test_an_answer_that_is_no_list_is_said_to_be_none(server, body):
    server.answers = [web.Response(body=body)]

    with pytest.raises(MalformedJsonError):
        await server.cluster.page(PATH, limit=0)


async def test_an_object_of_thousands_of_levels_hides_no_other_of_its_list(server):
    """Custom resources may keep unknown fields: one object made every list of its kind unreadable."""
    deep = b'{"metadata":{"uid":"d"},"spec":' + b'{"a":[' * 4000 + b"1" + b"]}" * 4000 + b"}"
    body = b'{"metadata":{"resourceVersion":"7"},"items":[%s,{"metadata":{"uid":"b"}}]}' % deep
    server.answers = [web.Response(body=body)]
    page = await server.cluster.page(PATH, limit=0)

    assert [records.uid_of(item) for item in page.items] == ["d", "b"]
    with pytest.raises(MalformedJsonError, match="deep"):
        records.decoded(page.items[0], object)


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
async def test_an_object_with_odd_bytes_hides_no_other_of_its_list(server, odd):
    """One ResourceClaim of a tenant made all claims of a cluster unreadable."""
    item = in_unread_fields({"metadata": {"uid": "d", "resourceVersion": "3"}}, odd)
    listed = (
        b'{"items": [ %s , {"metadata":{"uid":"b"}} ] , "metadata":{"zz":%s,"resourceVersion":"7"}}'
    )
    empty = b'{"items":null,"metadata":{"x":%s}}' % odd
    server.answers = [web.Response(body=listed % (item, odd)), web.Response(body=empty)]
    page = await server.cluster.page(PATH, limit=0)

    assert page.items == [item, b'{"metadata":{"uid":"b"}}'] and page.version == "7"
    assert [records.version_of(one) for one in page.items] == [("d", "3"), ("", "")]
    assert (await server.cluster.page(PATH, limit=0)).items == []


async def test_other_tasks_run_while_a_large_page_is_cut(server, monkeypatch):
    """60 MB of claims full of brackets kept reviews waiting for 8 seconds."""
    is_loop_free, cut, loop = threading.Event(), answers.page, asyncio.get_running_loop()

    def slowly(raw):
        loop.call_soon_threadsafe(is_loop_free.set)
        assert is_loop_free.wait(5), "the event loop waits for the page"
        return cut(raw)

    monkeypatch.setattr(answers, "page", slowly)
    item = b'{"x":"%b"}' % (b"x" * 2_000_000)
    server.answers = [
        web.Response(body=b'{"metadata":{"resourceVersion":"7"},"items":[%b]}' % item)
    ]

    assert (await server.cluster.page(PATH, limit=0)).items == [item]


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
async def test_a_single_object_with_odd_bytes_is_read_without_them(server, odd):
    """A pod that nobody could read could not be evicted."""
    server.answers = [web.Response(body=in_unread_fields({"metadata": {"uid": "d"}}, odd))]

    assert (await server.cluster.get(PATH))["metadata"]["uid"] == "d"


async def test_proxies_of_the_environment_are_not_asked(server, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    server.answers = [web.Response(body=b'{"metadata":{}}')]

    assert (await server.cluster.page(PATH, limit=0)).items == []
