"""The gateway of the API: nothing behind it is reached without a token, and whose tokens it takes."""

from pathlib import Path

from functions.admin_api.problems import BY_THE_GATEWAY, SENTENCES
from infra.api import BURST, REQUESTS_PER_SECOND, ROLES
from infra.packaging import Package
from tests.infra.synthesis import Synthesis, Template, synthesise


def authorizer(template: Template) -> dict[str, object]:
    resolved: dict[str, object] = template.resolved(template.the("AWS::ApiGatewayV2::Authorizer"))
    return resolved


def test_every_route_takes_a_token(aws: Synthesis) -> None:
    routes = aws["pipeline"].resources("AWS::ApiGatewayV2::Route").values()

    assert {route["RouteKey"] for route in routes} == {"ANY /api/{path+}"}
    assert {route["AuthorizationType"] for route in routes} == {"JWT"}


def test_it_is_an_http_api_whose_own_refusals_the_description_knows(aws: Synthesis) -> None:
    assert aws["pipeline"].the("AWS::ApiGatewayV2::Api")["ProtocolType"] == "HTTP"
    assert set(BY_THE_GATEWAY) <= SENTENCES.keys()


def test_tokens_are_those_of_a_user_pool_into_which_nobody_signs_himself_up(aws: Synthesis) -> None:
    pipeline = aws["pipeline"]
    pool = pipeline.the("AWS::Cognito::UserPool")
    client = pipeline.the("AWS::Cognito::UserPoolClient")
    groups = pipeline.resources("AWS::Cognito::UserPoolGroup").values()

    assert pool["AdminCreateUserConfig"] == {"AllowAdminCreateUserOnly": True}
    assert "ALLOW_USER_PASSWORD_AUTH" not in client["ExplicitAuthFlows"]
    assert {group["GroupName"] for group in groups} == set(ROLES)
    assert authorizer(pipeline)["AuthorizerType"] == "JWT"


def test_people_outlive_the_stack_on_aws_alone(aws: Synthesis, local: Synthesis) -> None:
    def kept(template: Template) -> object:
        (id_,) = template.resources("AWS::Cognito::UserPool")
        return template.document["Resources"][id_]["DeletionPolicy"]

    assert (kept(aws["pipeline"]), kept(local["pipeline"])) == ("Retain", "Delete")


def test_another_issuer_takes_the_place_of_the_user_pool(dependencies: Package, tmp_path: Path) -> None:
    context = {"issuer": "https://login.example.com/acme", "audience": "counterfoil"}
    named = synthesise(tmp_path, context, dependencies)["pipeline"]

    assert authorizer(named)["JwtConfiguration"] == {
        "Issuer": "https://login.example.com/acme",
        "Audience": ["counterfoil"],
    }
    assert named.resources("AWS::Cognito::UserPool") == {}


def test_the_gateway_lets_through_what_the_database_can_take(aws: Synthesis) -> None:
    stage = aws["pipeline"].the("AWS::ApiGatewayV2::Stage")

    assert stage["DefaultRouteSettings"] == {
        "ThrottlingBurstLimit": BURST,
        "ThrottlingRateLimit": REQUESTS_PER_SECOND,
    }
