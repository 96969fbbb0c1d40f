"""`/api/admin/people`: people in the built-in user pool, their roles and tenants.

A person has the same role for all of their tenants. An admin can manage a person only with the admin role for all of
the person's tenants. If the deployment uses another token issuer, people are managed there.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Path, Query
from botocore.exceptions import ClientError
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from counterfoil import audit, aws
from counterfoil.audit import AuditRecord
from counterfoil.settings import settings
from functions.admin_api import emails
from functions.admin_api.auth import (
    ALL_TENANTS,
    EDIT_PAYLOADS,
    MAX_ACTOR_CHARS,
    Request,
    Role,
    Slug,
    TenantSlug,
)
from functions.admin_api.endpoint import Cursor, Routes, json_response
from functions.admin_api.http import ConflictError, ForbiddenError, NotFoundError, responses

NO_PERSON = "There is no such person."
PAGE_SIZE = 20
"""Page size. Cognito is called once for each person on a page."""
MAX_SUBJECTS = 50
_TENANT = "tenant:"
RoleName = Literal["viewer", "operator", "admin"]
TenantOrAll = Slug | Literal["*"]
Email = Annotated[str, StringConstraints(max_length=254, pattern=r"^[!-?A-~]+@[!-?A-~]+\.[!-?A-~]+$", to_lower=True)]


class Person(BaseModel):
    """A person in the user pool."""

    id: str
    email: str
    role: RoleName | None = Field(description="Role; null if the person has none.")
    tenants: list[str] = Field(description="Slugs; `*` for all tenants.")
    edits_payloads: bool = Field(
        description="Whether the person may edit the payloads of failed tasks, as an operator."
    )
    is_disabled: bool
    created_at: datetime


class PersonPage(BaseModel):
    """People, in the user pool's order."""

    people: list[Person]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page.")


class Emails(BaseModel):
    """Email addresses of people."""

    emails: dict[str, str] = Field(description="Addresses by subject. People without a known address are omitted.")


class NewPerson(BaseModel):
    """A person to invite."""

    model_config = ConfigDict(extra="forbid")

    email: Email
    role: RoleName
    tenants: list[TenantOrAll] = Field(min_length=1, max_length=20, description="Slugs; `*` for all tenants.")
    edits_payloads: bool = False


class PersonChange(BaseModel):
    """Changes to a person. Omitted fields remain unchanged."""

    model_config = ConfigDict(extra="forbid")

    role: RoleName | None = None
    tenants: list[TenantOrAll] | None = Field(default=None, min_length=1, max_length=20)
    edits_payloads: bool | None = None
    is_disabled: bool | None = None


@dataclass(frozen=True)
class UserPool:
    """The built-in user pool."""

    id: str
    client: Any

    @classmethod
    def current(cls) -> "UserPool":
        """Return the pool of this deployment.

        Raises:
            ConflictError: the deployment uses another token issuer.
        """
        sign_in = settings().oidc
        if sign_in is None or sign_in.pool is None:
            raise ConflictError("People are managed at this deployment's token issuer, not here.")
        return cls(sign_in.pool, aws.client("cognito-idp"))

    def call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """Call a Cognito operation on this pool.

        Raises:
            NotFoundError: there is no such person.
            ConflictError: a person with this email address already exists.
            ServiceUnavailableError, RejectedRequestError: see `translate_errors`.
        """
        with aws.translate_errors():
            try:
                found: dict[str, Any] = getattr(self.client, operation)(UserPoolId=self.id, **parameters)
            except ClientError as error:
                code = error.response["Error"]["Code"]
                if code == "UserNotFoundException":
                    raise NotFoundError(NO_PERSON) from None
                if code == "UsernameExistsException":
                    raise ConflictError("A person with this email address already exists.") from None
                if code == "GroupExistsException":
                    return {}
                raise
        return found

    def page(self, tenant: str | None, email: str | None, cursor: str | None) -> PersonPage:
        """Return a page of people.

        `tenant` and `email` return only people with that tenant or email address.
        """
        parameters = {"Limit": PAGE_SIZE}
        if tenant is not None and email is None:
            group = f"{_TENANT}{tenant}"
            self.call("create_group", GroupName=group)
            listed = self.call("list_users_in_group", GroupName=group, **parameters, **_cursor("NextToken", cursor))
            next_cursor = listed.get("NextToken")
        else:
            filtered = {} if email is None else {"Filter": f"email = {json.dumps(email)}"}
            listed = self.call("list_users", **parameters, **filtered, **_cursor("PaginationToken", cursor))
            next_cursor = listed.get("PaginationToken")
        people = [self._person(user, "Attributes") for user in listed["Users"]]
        return PersonPage(
            people=[person for person in people if tenant is None or tenant in person.tenants], next_cursor=next_cursor
        )

    def find(self, id_: str) -> Person:
        """Return a person."""
        return self._person(self.call("admin_get_user", Username=id_), "UserAttributes")

    def _person(self, user: Mapping[str, Any], attributes: str) -> Person:
        values = {attribute["Name"]: attribute["Value"] for attribute in user[attributes]}
        listed = self.call("admin_list_groups_for_user", Username=user["Username"], Limit=60)
        groups = {group["GroupName"] for group in listed["Groups"]}
        roles: list[RoleName] = ["admin", "operator", "viewer"]
        return Person(
            id=user["Username"],
            email=values.get("email", user["Username"]),
            role=next((role for role in roles if role in groups), None),
            tenants=sorted(group.removeprefix(_TENANT) for group in groups if group.startswith(_TENANT)),
            edits_payloads=EDIT_PAYLOADS in groups,
            is_disabled=not user["Enabled"],
            created_at=user["UserCreateDate"],
        )

    def set_groups(self, id_: str, before: Iterable[str], after: Iterable[str]) -> None:
        """Change a person's groups. Old groups are removed before new groups are added."""
        for group in sorted(set(before) - set(after)):
            self.call("admin_remove_user_from_group", Username=id_, GroupName=group)
        for group in sorted(set(after) - set(before)):
            self.call("create_group", GroupName=group)
            self.call("admin_add_user_to_group", Username=id_, GroupName=group)


def _cursor(name: str, cursor: str | None) -> dict[str, str]:
    return {} if cursor is None else {name: cursor}


def _groups(person: Person | NewPerson) -> set[str]:
    groups = {f"{_TENANT}{tenant}" for tenant in person.tenants}
    return groups | ({person.role} if person.role else set()) | ({EDIT_PAYLOADS} if person.edits_payloads else set())


def _admit(request: Request, action: str, tenants: Iterable[str]) -> None:
    """Check the admin role for every tenant, and charge the change to the rate limit."""
    if ALL_TENANTS in tenants or request.caller.has_role(Role.ADMIN, ALL_TENANTS):
        request.admit_for_all(action)
    for tenant in sorted(set(tenants) - {ALL_TENANTS}):
        request.admit(action, tenant, role=Role.ADMIN)
    request.caller.require_subject()


def _managed_person(request: Request, pool: UserPool, id_: str, action: str) -> Person:
    """Return a person if the caller may manage them.

    Raises:
        NotFoundError: the person does not exist, or does not share a tenant with the caller.
        ForbiddenError: the caller does not have the admin role for all of the person's tenants.
    """
    person = pool.find(id_)
    caller = request.caller
    if not any(caller.has_role(Role.VIEWER, tenant) for tenant in [*person.tenants, ALL_TENANTS]):
        raise NotFoundError(NO_PERSON)
    if not all(caller.has_role(Role.ADMIN, tenant) for tenant in person.tenants):
        raise ForbiddenError(f"{action} requires the admin role for all of the person's tenants. Ask an admin.")
    _admit(request, action, person.tenants)
    return person


def _record(request: Request, action: str, id_: str, tenants: Iterable[str], detail: Mapping[str, Any]) -> None:
    """Record a change in each tenant's audit trail.

    For `*`, record it in the unassigned audit trail.
    """
    operation = AuditRecord(
        request.caller.require_subject()[:MAX_ACTOR_CHARS], action, [id_], request.now, detail=detail
    )
    for tenant in sorted(set(tenants)):
        if tenant == ALL_TENANTS:
            with request.database.delivery() as connection:
                audit.record(connection, None, operation)
            continue
        tenant_id, _ = request.tenant(tenant, Role.ADMIN)
        with request.database.tenant(tenant_id) as connection:
            audit.record(connection, tenant_id, operation)


routes = Routes()
PersonId = Annotated[str, Path(max_length=128, description="Id of the person.")]
_FAILURES = (400, 404, 409, 413, 415, 422, 429)


@routes.get(
    "/api/admin/people",
    summary="List people",
    tags=["people"],
    responses=responses({200: (PersonPage, "A page of people.")}, 404, 409, 422),
)
def list_people(
    request: Request,
    tenant: Annotated[
        TenantSlug | None,
        Query(
            description="Slug of a tenant. Default: all tenants for admins of all, otherwise the token's only tenant."
        ),
    ] = None,
    email: Annotated[Email | None, Query(description="Only the person with this address.")] = None,
    cursor: Cursor = None,
) -> Response[PersonPage]:
    """List a tenant's people, or all people."""
    if tenant is None and request.caller.has_role(Role.ADMIN, ALL_TENANTS):
        return json_response(200, UserPool.current().page(None, email, cursor))
    slug = request.tenant(tenant, Role.ADMIN).slug
    return json_response(200, UserPool.current().page(slug, email, cursor))


@routes.get(
    "/api/admin/people/emails",
    summary="Find email addresses",
    tags=["people"],
    responses=responses({200: (Emails, "The known addresses.")}, 422),
)
def find_emails(
    request: Request,
    subject: Annotated[
        list[str],
        Query(
            min_length=1,
            max_length=MAX_SUBJECTS,
            description="Subjects, such as the `actor` of an audit entry, repeated or separated by commas.",
        ),
    ],
) -> Response[Emails]:
    """Find the email addresses of people who made changes in the caller's tenants."""
    return json_response(200, Emails(emails=emails.find(request.database, subject, request.visible_tenants())))


@routes.post(
    "/api/admin/people",
    summary="Invite a person",
    tags=["people"],
    responses=responses({201: (Person, "The person was added. The user pool sends an invitation.")}, *_FAILURES),
)
def add_person(request: Request, body: Annotated[NewPerson, Body()]) -> Response[Person]:
    """Add a person. They receive an email with a temporary password."""
    _admit(request, "Inviting a person", body.tenants)
    pool = UserPool.current()
    attributes = [{"Name": "email", "Value": body.email}, {"Name": "email_verified", "Value": "true"}]
    created = pool.call(
        "admin_create_user", Username=body.email, UserAttributes=attributes, DesiredDeliveryMediums=["EMAIL"]
    )
    id_ = created["User"]["Username"]
    pool.set_groups(id_, (), _groups(body))
    _record(request, "person added", id_, body.tenants, {"role": body.role})
    return json_response(201, pool.find(id_))


@routes.patch(
    "/api/admin/people/<person_id>",
    summary="Change a person",
    tags=["people"],
    responses=responses({200: (Person, "The change was stored.")}, *_FAILURES),
)
def change_person(request: Request, person_id: PersonId, body: Annotated[PersonChange, Body()]) -> Response[Person]:
    """Change a person's role, tenants or right to edit payloads.

    The same request can disable or enable the person. Existing tokens stay valid until they expire.
    """
    pool = UserPool.current()
    before = _managed_person(request, pool, person_id, "Changing a person")
    if body.tenants is not None:
        for tenant in body.tenants:
            request.check(Role.ADMIN, tenant, "Changing a person")
    after = before.model_copy(update=body.model_dump(exclude_none=True, exclude={"is_disabled"}))
    pool.set_groups(before.id, _groups(before), _groups(after))
    if body.is_disabled is not None:
        pool.call("admin_disable_user" if body.is_disabled else "admin_enable_user", Username=before.id)
        if body.is_disabled:
            pool.call("admin_user_global_sign_out", Username=before.id)
    detail = body.model_dump(exclude_none=True, exclude={"tenants"})
    _record(request, "person changed", before.id, [*before.tenants, *after.tenants], detail)
    return json_response(200, pool.find(before.id))


@routes.delete(
    "/api/admin/people/<person_id>",
    summary="Remove a person",
    tags=["people"],
    responses=responses({204: (None, "The person was removed.")}, *_FAILURES),
)
def remove_person(request: Request, person_id: PersonId) -> Response[None]:
    """Remove a person from the user pool.

    Existing tokens stay valid until they expire.
    """
    pool = UserPool.current()
    person = _managed_person(request, pool, person_id, "Removing a person")
    pool.call("admin_delete_user", Username=person.id)
    _record(request, "person removed", person.id, person.tenants, {})
    return Response(204)
