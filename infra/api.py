"""The HTTP API: one gateway in front of one function.

Tokens are issued by a Cognito user pool of the deployment, or by another OpenID Connect issuer from the context. The
gateway validates signature, issuer, audience and expiry. The function validates them again, except for the signature.
Groups grant permissions: `viewer`, `operator` or `admin`, and `tenant:{slug}` for each tenant, or `tenant:*`.

The console at `/console` is public, because it contains no data. It sends the user's token to the API. The console and
`counterfoil login` share a public client (without a secret), which uses the authorization code flow with PKCE.

The gateway itself rejects requests without a valid token, requests above the rate limit, and requests for which the
function has no free capacity. Its responses have the gateway's own format, which cannot be changed. The OpenAPI
description contains both formats.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from aws_cdk import Aws, Duration, RemovalPolicy
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_cognito as cognito
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.context import Issuer

ROLES = ("viewer", "operator", "admin")
REQUESTS_PER_SECOND = 50
BURST = 100
"""Rate limit and burst of the gateway. They protect the database, because each request uses a connection."""
CONSOLE_PATHS = ("/console", "/console/{path+}")
"""GET routes that do not require a token."""
COMMAND_LINE = tuple(f"http://localhost:{port}/callback" for port in (18400, 18401, 18402))
"""Callback URLs of `counterfoil login`. Cognito permits HTTP only for localhost, and compares the whole URL."""
DISCOVERY = "/.well-known/openid-configuration"
WORKDAY_HOURS = 12
"""Hours until a user must sign in again. On AWS, each token expires after an hour."""


@dataclass(frozen=True)
class Address:
    """Public addresses of a deployment that do not come from AWS."""

    emulator: str | None = None
    """URL of the local cloud's emulator, which serves all AWS APIs."""
    console: str | None = None
    """Custom domain and path of the console."""


@dataclass(frozen=True)
class OidcConfig:
    """Settings for signing in to the console and for validating tokens."""

    issuer: str
    client: str
    discovery: str
    """URL of the issuer's discovery document."""
    origins: Sequence[str]
    """Origins that a browser contacts to sign in."""
    audience: Sequence[str] = field(default_factory=list)
    """Accepted audiences besides the client."""
    pool: str | None = None
    """Id of the built-in user pool."""


@dataclass(frozen=True)
class UserPool:
    """A user pool with its clients."""

    pool: cognito.UserPool
    programs: cognito.UserPoolClient
    browsers: cognito.UserPoolClient


class Api(Construct):
    """The gateway with its stage and authorizer, and the user pool.

    They are part of the state, because users and programs store their addresses and ids. `Routes`, in the functions'
    stack, connects the gateway to the function.
    """

    def __init__(
        self, scope: Construct, id_: str, *, issuer: Issuer | None, address: Address, removal_policy: RemovalPolicy
    ) -> None:
        """Create the gateway.

        If `issuer` is None, also create a user pool with `removal_policy`.
        """
        super().__init__(scope, id_)
        self.emulated = address.emulator is not None
        self.gateway = gateway.HttpApi(
            self, "Gateway", api_name="counterfoil", description="Counterfoil's API", create_default_stage=False
        )
        stage = gateway.HttpStage(
            self,
            "Stage",
            http_api=self.gateway,
            auto_deploy=True,
            throttle=gateway.ThrottleSettings(rate_limit=REQUESTS_PER_SECOND, burst_limit=BURST),
        )
        self.url = stage.url
        custom_console = urlsplit(address.console) if address.console else None
        self.origins = [
            self.gateway.api_endpoint,
            *([f"{custom_console.scheme}://{custom_console.netloc}"] if custom_console else []),
        ]
        """Origins from which browsers load the console."""
        base_url = (
            f"{address.emulator}/_aws/execute-api/{self.gateway.api_id}/$default/" if address.emulator else self.url
        )
        consoles = [f"{base_url}console", *([address.console.rstrip("/")] if address.console else [])]
        self.console = consoles[-1]
        """Address of the console."""
        self.people: UserPool | None = None
        if issuer is None:
            self.people = self._create_user_pool(consoles, address, removal_policy)
            self.sign_in = self._pool_config(self.people, address)
        else:
            self.sign_in = _issuer_config(issuer)
        self.tokens = authorizers.HttpJwtAuthorizer(
            "Tokens",
            self.sign_in.issuer,
            jwt_audience=[*self.sign_in.audience, self.sign_in.client],
            identity_source=["$request.header.Authorization"],
        )

    def _create_user_pool(self, consoles: Sequence[str], address: Address, removal_policy: RemovalPolicy) -> UserPool:
        pool = cognito.UserPool(
            self,
            "People",
            user_pool_name="counterfoil",
            self_sign_up_enabled=False,
            sign_in_aliases=cognito.SignInAliases(email=True),
            mfa=cognito.Mfa.OPTIONAL,
            mfa_second_factor=cognito.MfaSecondFactor(otp=True, sms=False),
            account_recovery=cognito.AccountRecovery.EMAIL_ONLY,
            removal_policy=removal_policy,
        )
        for role in ROLES:
            pool.add_group(role.title(), group_name=role)
        # Administrators of the pool use this client to sign in programs. Browsers use the other client.
        programs = pool.add_client(
            "Client",
            auth_flows=cognito.AuthFlow(admin_user_password=True),
            disable_o_auth=True,
            prevent_user_existence_errors=True,
        )
        browsers = pool.add_client(
            "Console",
            generate_secret=False,
            o_auth=cognito.OAuthSettings(
                flows=cognito.OAuthFlows(authorization_code_grant=True),
                scopes=[cognito.OAuthScope.OPENID, cognito.OAuthScope.EMAIL],
                callback_urls=[*(f"{console}/signed-in" for console in consoles), *COMMAND_LINE],
                logout_urls=[f"{console}/signed-out" for console in consoles],
            ),
            supported_identity_providers=[cognito.UserPoolClientIdentityProvider.COGNITO],
            prevent_user_existence_errors=True,
            enable_token_revocation=True,
            # The emulator omits groups from refreshed tokens, so the first token must be valid for the whole session.
            id_token_validity=Duration.hours(WORKDAY_HOURS if address.emulator else 1),
            refresh_token_validity=Duration.hours(WORKDAY_HOURS),
        )
        return UserPool(pool, programs, browsers)

    def _pool_config(self, people: UserPool, address: Address) -> OidcConfig:
        domain = people.pool.add_domain(
            "Domain", cognito_domain=cognito.CognitoDomainOptions(domain_prefix=f"counterfoil-{Aws.ACCOUNT_ID}")
        )
        host = f"https://cognito-idp.{Aws.REGION}.{Aws.URL_SUFFIX}"
        pool_url = f"{address.emulator or host}/{people.pool.user_pool_id}"
        return OidcConfig(
            issuer=f"{host}/{people.pool.user_pool_id}",
            client=people.browsers.user_pool_client_id,
            discovery=f"{pool_url}{DISCOVERY}",
            origins=[address.emulator] if address.emulator else [host, domain.base_url()],
            audience=[people.programs.user_pool_client_id],
            pool=people.pool.user_pool_id,
        )


class Routes(Construct):
    """Routes from the gateway to the function that handles requests."""

    def __init__(self, scope: Construct, id_: str, *, api: Api, function: lambda_.IFunction) -> None:
        """Create the routes. `/api` requires a token, and the console does not."""
        super().__init__(scope, id_)
        to_function = integrations.HttpLambdaIntegration("Function", function)
        gateway.HttpRoute(
            self,
            "ApiRoute",
            http_api=api.gateway,
            route_key=gateway.HttpRouteKey.with_("/api/{path+}", gateway.HttpMethod.ANY),
            integration=to_function,
            authorizer=api.tokens,
        )
        for path in CONSOLE_PATHS:
            route = gateway.HttpRoute(
                self,
                f"GET{path}",
                http_api=api.gateway,
                route_key=gateway.HttpRouteKey.with_(path, gateway.HttpMethod.GET),
                integration=to_function,
                authorizer=gateway.HttpNoneAuthorizer(),
            )
        if api.emulated:
            # `{path+}` matches `/console/` on AWS, but not in the emulator. This is an L1 construct, because
            # HttpRouteKey rejects paths that end with a slash.
            root_route = route.node.default_child
            assert isinstance(root_route, gateway.CfnRoute)
            gateway.CfnRoute(
                self,
                "EmulatedRoot",
                api_id=api.gateway.api_id,
                route_key="GET /console/",
                authorization_type=root_route.authorization_type,
                target=root_route.target,
            )


def _issuer_config(issuer: Issuer) -> OidcConfig:
    """Return the settings for an external issuer.

    Its audience is the console's client id.
    """
    parts = urlsplit(issuer.url)
    return OidcConfig(
        issuer=issuer.url,
        client=issuer.audience,
        discovery=f"{issuer.url.rstrip('/')}{DISCOVERY}",
        origins=[f"{parts.scheme}://{parts.netloc}"],
    )
