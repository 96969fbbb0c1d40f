"""API gateway: authorization of routes, accepted token issuers, and sign-in."""

import json
import re
from pathlib import Path
from typing import Any

from cli.commands.login import PORTS
from counterfoil.settings import OidcSettings
from functions.admin_api import console
from functions.admin_api.http import GATEWAY_STATUSES, STATUS_DESCRIPTIONS
from infra.packaging import Package
from tests.functions.admin_api.node_tests import PAGES
from tests.infra.synthesis import Synthesis, Template, synthesize


def authorizer(template: Template) -> dict[str, Any]:
    resolved: dict[str, Any] = template.resolve(template.only_resource("AWS::ApiGatewayV2::Authorizer"))
    return resolved


def clients(template: Template) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the user pool clients for programs and for browsers."""
    found = template.resources("AWS::Cognito::UserPoolClient").values()
    (browsers,) = [client for client in found if client["AllowedOAuthFlowsUserPoolClient"]]
    (programs,) = [client for client in found if client is not browsers]
    return programs, browsers


def sign_in(template: Template) -> OidcSettings:
    """Return the sign-in settings of the admin API function."""
    function = template.resolve(template.named_resource("AWS::Lambda::Function", "counterfoil-admin_api"))
    return OidcSettings.model_validate(json.loads(function["Environment"]["Variables"]["OIDC"]))


def test_only_console_routes_are_public(aws: Synthesis, local: Synthesis) -> None:
    for stage, pages in ((aws, console.ROUTES - {console.EMULATED_ROOT}), (local, console.ROUTES)):
        routes = stage.app.resources("AWS::ApiGatewayV2::Route").values()
        types = {route["RouteKey"]: route["AuthorizationType"] for route in routes}

        assert types == {"ANY /api/{path+}": "JWT"} | dict.fromkeys(pages, "NONE")
        assert len({json.dumps(route["Target"]) for route in routes}) == 1


def test_public_client_redirects_to_console_and_command_line(aws: Synthesis, local: Synthesis) -> None:
    _, browsers = clients(aws.app)
    back, *command_line = aws.app.resolve(browsers["CallbackURLs"])
    (out,) = aws.app.resolve(browsers["LogoutURLs"])
    local_back, *local_command_line = local.app.resolve(clients(local.app)[1]["CallbackURLs"])

    assert command_line == local_command_line == [f"http://localhost:{port}/callback" for port in PORTS]
    assert browsers["AllowedOAuthFlows"] == ["code"]
    assert browsers["GenerateSecret"] is False
    assert not {flow for flow in browsers.get("ExplicitAuthFlows", ()) if "REFRESH" not in flow}
    assert back.startswith("https://StateApiGateway")
    assert back.endswith("/console/signed-in")
    assert out == back.replace("signed-in", "signed-out")
    assert local_back.startswith("http://127.0.0.1:4566/_aws/execute-api/StateApiGateway")
    assert local_back.endswith("/$default/console/signed-in")


def test_sign_in_redirects_to_custom_console_domain(dependencies: Package, tmp_path: Path) -> None:
    context = {"settings": {"CONSOLE_URL": "https://counterfoil.example.com/console/"}}
    named = synthesize(tmp_path, context, dependencies).app

    assert clients(named)[1]["CallbackURLs"][1] == "https://counterfoil.example.com/console/signed-in"


def test_notifications_link_to_the_configured_console(
    dependencies: Package, aws: Synthesis, local: Synthesis, tmp_path: Path
) -> None:
    context = {"settings": {"CONSOLE_URL": "https://counterfoil.example.com/console/"}}
    named = synthesize(tmp_path, context, dependencies)
    own, emulated, chosen = (
        stage.app.resolve(stage.app.named_resource("AWS::Lambda::Function", "counterfoil-watchdog"))
        for stage in (aws, local, named)
    )

    assert re.fullmatch("https://StateApiGateway.+/console", own["Environment"]["Variables"]["CONSOLE_URL"])
    assert emulated["Environment"]["Variables"]["CONSOLE_URL"].endswith("/$default/console")
    assert chosen["Environment"]["Variables"]["CONSOLE_URL"] == "https://counterfoil.example.com/console"


def test_only_console_origins_may_upload(dependencies: Package, tmp_path: Path) -> None:
    context = {"settings": {"CONSOLE_URL": "https://counterfoil.example.com/console/"}}
    pipeline = synthesize(tmp_path, context, dependencies).app
    bucket = pipeline.resolve(pipeline.only_resource("AWS::S3::Bucket"))
    (rule,) = bucket["CorsConfiguration"]["CorsRules"]
    function = pipeline.resolve(pipeline.named_resource("AWS::Lambda::Function", "counterfoil-admin_api"))

    assert rule["AllowedMethods"] == ["POST"]
    api, own = rule["AllowedOrigins"]
    assert re.fullmatch(r"StateApiGateway\w+\.ApiEndpoint", api)
    assert own == "https://counterfoil.example.com"
    assert len(json.loads(function["Environment"]["Variables"]["UPLOAD_ORIGINS"])) == 2


def test_function_gets_sign_in_settings(aws: Synthesis, local: Synthesis) -> None:
    is_aws, here = sign_in(aws.app), sign_in(local.app)

    assert authorizer(aws.app)["JwtConfiguration"]["Issuer"] == is_aws.issuer
    assert {is_aws.client, *is_aws.audience} == set(authorizer(aws.app)["JwtConfiguration"]["Audience"])
    assert len(is_aws.audience) == 1
    assert is_aws.discovery == f"{is_aws.issuer}/.well-known/openid-configuration"
    issuer, pages = is_aws.origins
    assert is_aws.issuer.startswith(f"{issuer}/")
    assert re.fullmatch(r"https://StateApiPeopleDomain\w+\.auth\.AWS::Region\.amazoncognito\.com", pages)
    assert here.origins == ("http://127.0.0.1:4566",)
    assert here.discovery.startswith("http://127.0.0.1:4566/StateApiPeople")


def test_gateway_errors_are_in_the_api_description(aws: Synthesis) -> None:
    assert aws.app.only_resource("AWS::ApiGatewayV2::Api")["ProtocolType"] == "HTTP"
    assert set(GATEWAY_STATUSES) <= STATUS_DESCRIPTIONS.keys()


def test_user_pool_disables_self_sign_up(aws: Synthesis) -> None:
    pipeline = aws.app
    pool = pipeline.only_resource("AWS::Cognito::UserPool")
    client, _ = clients(pipeline)
    groups = pipeline.resources("AWS::Cognito::UserPoolGroup").values()

    assert pool["AdminCreateUserConfig"] == {"AllowAdminCreateUserOnly": True}
    assert "ALLOW_USER_PASSWORD_AUTH" not in client["ExplicitAuthFlows"]
    assert {group["GroupName"] for group in groups} == {"viewer", "operator", "admin"}
    assert authorizer(pipeline)["AuthorizerType"] == "JWT"


def test_user_pool_outlives_the_stack_on_aws_only(aws: Synthesis, local: Synthesis) -> None:
    def deletion_policy(template: Template) -> object:
        (id_,) = template.resources("AWS::Cognito::UserPool")
        return template.document["Resources"][id_]["DeletionPolicy"]

    assert (deletion_policy(aws.app), deletion_policy(local.app)) == ("Retain", "Delete")


def test_custom_issuer_replaces_the_user_pool(dependencies: Package, tmp_path: Path) -> None:
    context = {"issuer": "https://login.example.com/acme", "audience": "counterfoil"}
    named = synthesize(tmp_path, context, dependencies).app

    assert authorizer(named)["JwtConfiguration"] == {
        "Issuer": "https://login.example.com/acme",
        "Audience": ["counterfoil"],
    }
    assert named.resources("AWS::Cognito::UserPool") == {}
    assert sign_in(named) == OidcSettings(
        issuer="https://login.example.com/acme",
        client="counterfoil",
        discovery="https://login.example.com/acme/.well-known/openid-configuration",
        origins=("https://login.example.com",),
    )


def test_gateway_throttles_requests(aws: Synthesis) -> None:
    from infra.api import BURST, REQUESTS_PER_SECOND

    stage = aws.app.only_resource("AWS::ApiGatewayV2::Stage")

    assert stage["DefaultRouteSettings"] == {
        "ThrottlingBurstLimit": BURST,
        "ThrottlingRateLimit": REQUESTS_PER_SECOND,
    }


def test_gateway_rate_allows_twenty_five_open_pages() -> None:
    """Each page polls one resource often and at most three slowly.

    The slow ones include the paused queues.
    """
    from infra.api import REQUESTS_PER_SECOND

    leads, steady = (
        float(re.findall(rf"{name} = ([0-9.]+);", (PAGES / "api.ts").read_text())[0])
        for name in ("POLL_LEADER_SECONDS", "POLL_SLOW_SECONDS")
    )
    assert 25 * (1 / leads + 3 / steady) <= REQUESTS_PER_SECOND


def test_only_the_gateway_may_call_the_function(aws: Synthesis, local: Synthesis) -> None:
    """The function relies on the gateway to verify token signatures."""
    for stage in (aws, local):
        pipeline = stage.app
        function = pipeline.resolve(pipeline.named_resource("AWS::Lambda::Function", "counterfoil-admin_api"))[
            "FunctionName"
        ]
        (api,) = pipeline.resources("AWS::ApiGatewayV2::Api")
        allowed = [
            permission
            for permission in map(pipeline.resolve, pipeline.resources("AWS::Lambda::Permission").values())
            if function in json.dumps(permission["FunctionName"])
        ]

        assert len(allowed) == len({"ANY /api/{path+}"} | console.ROUTES - {console.EMULATED_ROOT})
        for permission in allowed:
            assert permission["Principal"] == "apigateway.amazonaws.com"
            assert f":{api}/*/*/" in permission["SourceArn"]
        assert pipeline.resources("AWS::Lambda::Url") == {}
        policies = {id_: policy["PolicyDocument"] for id_, policy in pipeline.resources("AWS::IAM::Policy").items()}
        assert not [id_ for id_, policy in policies.items() if _calls(policy, "AdminApi")]


def _calls(policy: dict[str, Any], function: str) -> bool:
    return any(
        "lambda:InvokeFunction" in str(statement["Action"]) and function in json.dumps(statement["Resource"])
        for statement in policy["Statement"]
    )
