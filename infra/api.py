"""The HTTP API: one gateway in front of one function, which nothing reaches without a token.

The tokens are those of a Cognito user pool that the deployment makes, or of any other OpenID Connect issuer that its
context names. The gateway checks signature, issuer, audience and expiry. Groups say what a person may do: `viewer`,
`operator` or `admin`, and `tenant:{slug}` for each tenant, or `tenant:*`.

It is an HTTP API: what it refuses by itself (no valid token, too many requests, no room for the function) it says in
its own form, which cannot be changed. The description of the API has both.
"""

from dataclasses import dataclass

from aws_cdk import Aws, RemovalPolicy
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_cognito as cognito
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

ROLES = ("viewer", "operator", "admin")
REQUESTS_PER_SECOND = 50
BURST = 100
"""What the gateway lets through: a database connection is what each request takes."""


@dataclass(frozen=True)
class Issuer:
    """Whose tokens are taken."""

    url: str
    """As tokens name it in `iss`."""
    audience: str
    """As tokens name us in `aud` or `client_id`."""


class Api(Construct):
    """The gateway, its authorizer, and its one route to the function."""

    def __init__(
        self, scope: Construct, id_: str, function: lambda_.IFunction, *, issuer: Issuer | None, keep: bool
    ) -> None:
        """Create them; the people in a user pool that is made here outlive the stack if `keep`."""
        super().__init__(scope, id_)
        self.client: cognito.UserPoolClient | None = None
        if issuer is None:
            issuer = self._user_pool(keep=keep)
        api = gateway.HttpApi(
            self,
            "Gateway",
            api_name="counterfoil",
            description="Counterfoil's API",
            create_default_stage=False,
            default_authorizer=authorizers.HttpJwtAuthorizer(
                "Tokens", issuer.url, jwt_audience=[issuer.audience], identity_source=["$request.header.Authorization"]
            ),
        )
        api.add_routes(path="/api/{path+}", integration=integrations.HttpLambdaIntegration("Function", function))
        stage = gateway.HttpStage(
            self,
            "Stage",
            http_api=api,
            auto_deploy=True,
            throttle=gateway.ThrottleSettings(rate_limit=REQUESTS_PER_SECOND, burst_limit=BURST),
        )
        self.url = stage.url

    def _user_pool(self, *, keep: bool) -> Issuer:
        pool = cognito.UserPool(
            self,
            "People",
            user_pool_name="counterfoil",
            self_sign_up_enabled=False,
            sign_in_aliases=cognito.SignInAliases(email=True),
            mfa=cognito.Mfa.OPTIONAL,
            mfa_second_factor=cognito.MfaSecondFactor(otp=True, sms=False),
            account_recovery=cognito.AccountRecovery.EMAIL_ONLY,
            removal_policy=RemovalPolicy.RETAIN if keep else RemovalPolicy.DESTROY,
        )
        for role in ROLES:
            cognito.CfnUserPoolGroup(self, role.title(), user_pool_id=pool.user_pool_id, group_name=role)
        self.pool = pool
        # Whoever may administer the pool may sign a program in; a browser never sends a password to it.
        self.client = pool.add_client(
            "Client",
            auth_flows=cognito.AuthFlow(admin_user_password=True),
            disable_o_auth=True,
            prevent_user_existence_errors=True,
        )
        return Issuer(
            f"https://cognito-idp.{Aws.REGION}.{Aws.URL_SUFFIX}/{pool.user_pool_id}", self.client.user_pool_client_id
        )
